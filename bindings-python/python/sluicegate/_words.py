"""The words that options and attributes are made of."""

from typing import Literal

ForwardedHeader = Literal["x-forwarded-for", "forwarded"]
OnOutage = Literal["share", "allow", "deny", "raise"]
Source = Literal["redis", "memory", "lease", "deny-cache", "outage"]
StoreState = Literal["connecting", "up", "out", "closed"]
