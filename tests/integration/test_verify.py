"""P6 and P9: whatever is changed behind our back is found, and named by position; a replay gives every row."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.world


def test_untouched(world):
    founded = world.found_house("home", "ana")
    ana = founded.owner
    r = ana.remember("prefers tabs \u0001\b\f\n\r\t\"\\/ \x7f \u2028 é 🙂 \u202e", key="indent", tags=["a", "b\n"])
    ana.revise(r.memory, content="spaces", confidence=0.3)
    kate = ana.create_agent("kate")
    k = world.agent(ana.issue_token(kate))
    h = k.remember("shared", scope="house")
    s = ana.supersede(h.memory, "better")
    ana.link(s.memory, "about", h.memory, weight=2)
    room = ana.create_group("room")
    ana.grant(room, kate, "rw")
    ana.grant(room, kate, "r")
    ana.revoke(room, kate)
    ana.configure(room, memories_max=5)
    ana.rename(room, "room2")
    ana.remove(room)
    ana.forget(s.memory)
    report = world.operator().verify(founded.house.id)
    print(report)
    assert report.ok
    assert ana.verify().ok
