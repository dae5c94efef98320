"""What tools that write have in common."""

from __future__ import annotations

import logging

from substrate.errors import IndexUnavailable
from substrate.runtime.agent import HostedAgent
from substrate.world.principal import Receipt

log = logging.getLogger(__name__)

#: Seconds in which the local index usually has what was written many times over.
PATIENCE = 2.0


def caught_up(agent: HostedAgent, receipt: Receipt) -> Receipt:
    """The receipt, once what it stands for can be recalled here: a model that writes and then looks finds it.

    It is durable whatever becomes of the index. Where that takes longer, the answer is given all the same.
    """
    try:
        agent.catch_up(receipt.position, timeout=PATIENCE)
    except IndexUnavailable as error:
        log.warning("a tool wrote what cannot be recalled here yet: %s", error.code)
    return receipt
