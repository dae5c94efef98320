"""What an agent can do in Python can be done from the command line, too; what is left out is named, with the reason."""

from __future__ import annotations

import pytest

from substrate.runtime.agent import HostedAgent
from tests.unit.test_cli_help import COMMANDS

#: By method, the commands that call it.
COMMAND_OF = {
    "approve_promotion": "approve", "as_of": "as-of", "cancel_reminder": "reminder cancel", "catch_up": "recall",
    "checkpoint": "checkpoint take", "checkpoint_contents": "checkpoint show", "checkpoint_history": "checkpoint history",
    "checkpoints": "checkpoint list", "configure": "configure", "context": "session context",
    "create_agent": "agent create", "create_group": "room create", "decline_promotion": "decline", "diff": "diff",
    "erase": "erase", "erase_where": "erase", "export_house": "export", "files": "files list",
    "find_checkpoint": "checkpoint show", "forget": "forget", "get": "get", "get_by_key": "get", "grant": "grant",
    "grants": "rights", "history": "history", "hold": "hold", "hot_index": "hot", "inbox": "reminder inbox",
    "interactions": "session history", "issue_token": "token issue", "link": "link", "links": "links", "list": "list",
    "list_as_of": "as-of", "manifest": "manifest", "mark_read": "reminder inbox", "move": "move",
    "neighbours": "neighbours", "proposal": "proposals", "proposals": "proposals", "propose_promotion": "propose",
    "read_stream": "stream", "recall": "recall", "reinforce": "reinforce", "release": "release", "remember": "remember",
    "remember_many": "import", "remind": "reminder add", "reminder": "reminder show", "reminders": "reminder list",
    "remove": "remove", "rename": "rename", "reschedule": "reminder snooze", "restore": "restore",
    "restore_checkpoint": "checkpoint restore", "resume": "stream", "retract": "retract", "revise": "revise",
    "revoke": "revoke", "revoke_token": "token revoke", "rights": "rights", "rights_as_of": "rights",
    "run_events": "run show", "run_tree": "run tree", "runs": "run list", "scope": "configure", "scopes": "house show",
    "session": "session add", "sessions": "session list", "set_tier": "tier", "snooze": "reminder snooze",
    "subscribe": "stream", "supersede": "supersede", "tokens": "token list", "undo_retraction": "undo-retraction",
    "unlink": "unlink", "verify": "verify", "why": "why", "within": "remember", "position_of": "as-of",
    "id": "whoami", "house": "whoami", "imports": "imports", "name_import": "bring", "write_imported": "bring",
    "deliverers": "reminder deliver",
}  # fmt: skip
#: By method, why there is none.
NO_COMMAND = {
    "run": "a run is as long as the program that does the work",
    "session_event": "told by the sessions themselves",
    "claim_offers": "taken up by what extracts memories, and by nobody who types",
    "looks": "what `stream --follow` is made of",
    "working": "what one process keeps at hand",
    "keeps_checkpoints": "`config show` says it",
    "settings": "`config show` says it",
    "meter": "`metrics` shows all of them",
    "index": "`recall`, `hot`, `neighbours` and `manifest` read the indexes; others are for who wrote their projection",
    **dict.fromkeys(
        (
            "forget_many",
            "get_by_keys",
            "get_many",
            "keep_many",
            "key_heads",
            "link_many",
            "links_of",
            "list_keyed",
            "revise_many",
            "stamp_keyed",
            "unlink_many",
        ),
        "many at once, for doors; one by one there is a command",
    ),
    **dict.fromkeys(
        ("check_imported", "histories", "record_signals", "retraction_of", "writable_scope"),
        "steps of what `bring` does",
    ),
    **dict.fromkeys(
        (
            "context_of_events",
            "credential",
            "embedder",
            "names_known",
            "note_given",
            "of",
            "reading",
            "replica",
            "whereabouts",
        ),
        "for code that works on behalf of an agent",
    ),
}
METHODS = [name for name in dir(HostedAgent) if not name.startswith("_")]


@pytest.mark.parametrize("method", METHODS)
def test_each_thing_that_an_agent_can_do_has_a_command_or_a_reason(method: str) -> None:
    assert (method in COMMAND_OF) != (method in NO_COMMAND), "name its command, or say why there is none"
    if method in COMMAND_OF:
        assert tuple(COMMAND_OF[method].split()) in COMMANDS


def test_nothing_is_named_that_an_agent_cannot_do() -> None:
    assert {*COMMAND_OF, *NO_COMMAND} - set(METHODS) == set()
