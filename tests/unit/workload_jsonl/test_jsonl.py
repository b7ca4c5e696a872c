import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.errors import WorkloadError
from dwise_predict.workload.jsonl import read_jsonl, write_jsonl
from dwise_predict.workload.schema import Message, Request


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    return tmp_path / "prompts.jsonl"


def test_a_prompt_is_one_user_turn_and_lines_name_requests(workload: Path) -> None:
    workload.write_text('\n{"prompt": "Hi"}\n\n{"prompt": "Ho", "category": "chat"}\n')
    first, second = read_jsonl(workload)
    assert first == Request(request_id="line-2", messages=(Message(role="user", content="Hi"),))
    assert (second.request_id, second.category) == ("line-4", "chat")


def test_chat_messages_and_all_optional_keys(workload: Path) -> None:
    workload.write_text(
        json.dumps(
            {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "2+2?"},
                ],
                "category": "math",
                "max_new_tokens": 32,
                "answer": "4",
                "request_id": "q1",
                "dataset": "mine",
                "split": "eval",
            }
        )
    )
    (request,) = read_jsonl(workload)
    assert request == Request(
        request_id="q1",
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="2+2?"),
        ),
        category="math",
        max_new_tokens=32,
        answer="4",
        dataset="mine",
        split="eval",
    )


def test_byte_order_mark_windows_newlines_and_unicode_line_separators(workload: Path) -> None:
    workload.write_bytes('\ufeff{"prompt": "a\u2028b\u0085c"}\r\n{"prompt": "é"}'.encode())
    assert [request.text for request in read_jsonl(workload)] == ["a\u2028b\u0085c", "é"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"prompt": "a"}\n{"prompt" "b"}', ":2:11: not valid JSON"),
        (b'{"prompt": "a"', ":1:15: not valid JSON"),
        (b'{"promt": "a"}', ":1: unknown key 'promt'; did you mean 'prompt'? valid: answer,"),
        (b"[1, 2]", ":1: expected a JSON object, got list"),
        (b'"text"', ":1: expected a JSON object, got str"),
        (b'{"category": "x"}', ":1: exactly one of 'prompt' and 'messages'"),
        (
            b'{"prompt": "a", "messages": [{"role": "user", "content": "b"}]}',
            ":1: exactly one of 'prompt' and 'messages'",
        ),
        (b'{"messages": []}', "'messages'"),
        (b'{"messages": [{"role": "robot", "content": "b"}]}', "'messages.0.role' is 'robot'"),
        (b'{"messages": [{"role": "user", "text": "b"}]}', "unknown key 'messages.0.text'"),
        (b'{"prompt": "a", "max_new_tokens": 0}', "'max_new_tokens' is 0"),
        (b'{"prompt": "a", "max_new_tokens": "9"}', "'max_new_tokens' is '9'"),
        (b'{"prompt": "a", "max_new_tokens": true}', "'max_new_tokens' is True"),
        (b'{"prompt": "a", "max_new_tokens": NaN}', "NaN is not JSON"),
        (b'{"prompt": "a", "prompt": "b"}', "'prompt' is given twice"),
        (b'{"prompt": " \\n"}', ":1: the prompt is blank"),
        (b'{"prompt": 5}', "'prompt' is 5"),
        (b'{"prompt": "a", "answer": 5}', "'answer' is 5"),
        (b'{"prompt": "a", "category": "a\\\\b"}', ":1: key 'category'"),
        (b'{"prompt": "a", "dataset": "' + b"x" * 200 + b'"}', ":1: key 'dataset'"),
        (
            b'{"prompt": "a"}\n{"prompt": "a", "answer": " "}',
            ":2: key 'answer' is ' ', but expected",
        ),
        (b'{"prompt": "a", "split": "test"}', "'train' or 'eval'"),
        (b'{"prompt": "\\ud800"}', "unpaired surrogate \\ud800"),
        (b'{"prompt": "a"}\n{"prompt": "\xff"}', ":2: byte 13 is not UTF-8"),
        ('{"prompt": "a"}'.encode("utf-16"), ":1: byte 1 is not UTF-8"),
        (b"[" * 200_000, ":1: nested too deeply"),
        (b"", "has no requests"),
        (b"\n  \n\t\n", "has no requests"),
    ],
)
def test_a_wrong_line_is_named(workload: Path, content: bytes, message: str) -> None:
    workload.write_bytes(content)
    with pytest.raises(WorkloadError) as caught:
        read_jsonl(workload)
    assert str(workload) in str(caught.value)
    assert message in str(caught.value)


def test_duplicate_ids_name_both_lines(workload: Path) -> None:
    workload.write_text(
        '{"prompt": "a", "request_id": "x"}\n\n{"prompt": "b", "request_id": "x"}\n'
    )
    with pytest.raises(WorkloadError, match=r":3: request_id 'x' is taken by line 1"):
        read_jsonl(workload)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"absent\.jsonl: No such file"):
        read_jsonl(tmp_path / "absent.jsonl")
    with pytest.raises(WorkloadError, match="Is a directory"):
        read_jsonl(tmp_path)
    with pytest.raises(WorkloadError, match=r"'a\\x00b'.*null"):
        read_jsonl(Path("a\0b"))


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
_LABEL = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="\\/~"),
    min_size=1,
    max_size=80,
)


@given(
    st.lists(
        st.builds(
            dict,
            messages=st.lists(
                st.builds(Message, role=st.sampled_from(["system", "user"]), content=_TEXT),
                min_size=1,
                max_size=3,
            ).map(tuple),
            category=_LABEL,
            split=st.sampled_from([None, "train", "eval"]),
            max_new_tokens=st.none() | st.integers(1, 10_000),
            answer=st.none() | _TEXT,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_written_requests_read_back_equal(tmp_path_factory: pytest.TempPathFactory, rows) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "w.jsonl"
    requests = [Request(request_id=f"r{i}", **row) for i, row in enumerate(rows)]
    write_jsonl(requests, path)
    assert read_jsonl(path) == requests
