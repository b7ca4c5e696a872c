"""The common words that built-in prompts and answers are made of, with what is known of each."""

from __future__ import annotations

NAMES = (
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jack",
    "Kate", "Leo", "Maria", "Nina", "Oscar", "Paul", "Rosa", "Sam", "Tom", "Vera",
)  # fmt: skip

PLACES = (
    "river", "forest", "garden", "market", "school", "harbor", "mountain", "village", "lake",
    "station", "library", "field", "beach", "castle", "bridge", "kitchen",
)  # fmt: skip

ADJECTIVES = (
    "small", "old", "young", "quiet", "happy", "clever", "brave", "tired", "kind", "strange",
    "white", "hungry",
)  # fmt: skip

VERBS = (
    "walked", "ran", "jumped", "looked", "waited", "sang", "slept", "worked", "danced", "listened",
)  # fmt: skip

OBJECTS = (
    "stone", "lamp", "book", "chair", "clock", "coin", "cup", "door", "key", "letter", "map",
    "mirror", "pencil", "ring", "rope", "table",
)  # fmt: skip

FOODS = (
    "apple", "bread", "cheese", "egg", "honey", "lemon", "melon", "orange", "pear", "plum",
    "rice", "soup",
)  # fmt: skip

COLORS = ("black", "blue", "brown", "gray", "green", "orange", "pink", "red", "white", "yellow")

# Each animal with the facts that a question about it is answered with: between one and six.
FACTS: dict[str, tuple[str, ...]] = {
    "ant": ("It is very small.", "It lives in a nest.", "It can carry heavy things."),
    "bear": ("It is big and strong.", "It sleeps in winter.", "It likes honey.", "It eats fish.",
             "It lives in the forest."),
    "bee": ("It makes honey.",),
    "bird": ("It has two wings.", "It lays eggs.", "It sings in the morning."),
    "camel": ("It lives in the desert.", "It can live without water for a long time."),
    "cat": ("It likes to sleep.", "It hunts mice.", "It can see in the dark.", "It has soft hair."),
    "cow": ("It eats grass.", "It gives milk."),
    "crab": ("It walks to the side.",),
    "deer": ("It runs fast.", "It eats leaves.", "It is shy.", "It lives in the forest."),
    "dog": ("It is a good friend.", "It likes to play.", "It can smell very well.",
            "It guards the house.", "It eats meat.", "It runs fast."),
    "duck": ("It swims on the lake.", "It has wings.", "It lays eggs."),
    "eagle": ("It flies very high.", "It can see very well."),
    "fish": ("It lives in water.",),
    "fox": ("It is clever.", "It has a red coat.", "It hunts at night.", "It lives in a den.",
            "It eats mice.", "It has a long tail."),
    "frog": ("It is green.", "It jumps far.", "It eats flies."),
    "goat": ("It climbs on rocks.", "It gives milk.", "It eats grass.", "It has two horns."),
    "hen": ("It lays eggs.",),
    "horse": ("It runs fast.", "It eats grass.", "It can carry people.", "It sleeps on its feet.",
              "It lives on a farm."),
    "lion": ("It is strong.", "It hunts in a group."),
    "monkey": ("It climbs trees.", "It likes fruit.", "It is clever.", "It has a long tail.",
               "It lives in a group."),
    "mouse": ("It is small.", "It likes cheese."),
    "owl": ("It hunts at night.", "It can turn its head.", "It flies without a sound."),
    "rabbit": ("It has long ears.", "It eats leaves.", "It lives in a den.", "It jumps far."),
    "shark": ("It lives in the sea.", "It has many teeth.", "It swims fast."),
    "sheep": ("It gives wool.",),
    "snake": ("It has no legs.", "It lays eggs.", "It hunts mice.", "It sleeps in winter.",
              "It can swim.", "It likes the sun."),
    "tiger": ("It is strong.", "It hunts alone.", "It can swim."),
    "turtle": ("It is slow.", "It has a hard shell.", "It lays eggs.", "It lives for a long time."),
    "whale": ("It is very big.", "It lives in the sea."),
    "wolf": ("It hunts in a group.", "It sings at night.", "It lives in the forest.",
             "It has gray hair.", "It can run for a long time."),
}  # fmt: skip

ANIMALS = tuple(FACTS)

# Members of the four classes that choice questions ask about.
CLASSES: dict[str, tuple[str, ...]] = {
    "animal": ANIMALS,
    "food": ("bread", "cheese", "egg", "honey", "lemon", "melon", "pear", "plum", "rice", "soup"),
    "color": ("black", "blue", "brown", "gray", "green", "pink", "red", "yellow"),
    "thing": OBJECTS,
}

# Activities with the steps that a question about them is answered with.
STEPS: dict[str, tuple[str, ...]] = {
    "make tea": ("Boil the water.", "Put the tea in the cup.", "Pour the water.", "Wait a little."),
    "plant a tree": ("Dig a hole.", "Put the tree in.", "Fill the hole.", "Give it water.",
                     "Wait for the rain.", "Come back in spring."),
    "wash a cup": ("Use warm water.", "Dry the cup."),
    "bake bread": ("Mix flour and water.", "Add salt.", "Wait one hour.", "Heat the oven.",
                   "Bake the bread.", "Let it cool.", "Cut it.", "Eat it with honey."),
    "find a book": ("Go to the library.", "Look for the name.", "Ask for help."),
    "send a letter": ("Write the letter.", "Fold the paper.", "Write the address.",
                      "Go to the station."),
    "fix a chair": ("Turn the chair over.", "Look for the broken leg.", "Put glue on it.",
                    "Hold it for an hour.", "Paint it."),
    "learn a song": ("Listen to the song.", "Sing it every day."),
    "clean a lamp": ("Turn off the light.", "Let it cool.", "Wipe the glass."),
    "cook rice": ("Wash the rice.", "Boil the water.", "Add the rice.", "Wait ten minutes.",
                  "Add salt."),
    "draw a map": ("Take a pencil.", "Draw the river.", "Draw the bridge.", "Draw the mountain.",
                   "Draw the village.", "Add the names.", "Color the lake blue."),
    "open a door": ("Turn the key.",),
}  # fmt: skip
