"""What a campaign needs of the machine, checked before hours are spent (``dwise doctor``)."""

from dwise_predict.doctor.examine import examine
from dwise_predict.doctor.findings import Finding, Status

__all__ = ["Finding", "Status", "examine"]
