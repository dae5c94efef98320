"""Reminders on the command line."""

from __future__ import annotations

from tests.shell import Shell


def test_a_reminder_from_the_wish_to_the_inbox(shell: Shell) -> None:
    made = shell.json("reminder", "add", "call the vet", "--due", "0s", "--to", "ana", "--session", "s-1")
    assert (made["message"], made["state"], made["session"]) == ("call the vet", "waiting", "s-1")
    assert "call the vet" in shell("reminder", "list")
    assert shell.json("reminder", "deliver", "--runtime", "desk") == {"delivered": 1, "failed": 0, "lost": 0}
    assert shell.json("reminder", "show", made["id"])["state"] == "delivered"
    assert shell("reminder", "list") == "no reminders\n"
    assert [one["id"] for one in shell.json("reminder", "list", "--all")["reminders"]] == [made["id"]]
    for _ in range(2):
        assert [one["message"] for one in shell.json("reminder", "inbox", "--keep")["inbox"]] == ["call the vet"]
    assert "call the vet" in shell("reminder", "inbox")
    assert shell("reminder", "inbox") == "nothing new\n"


def test_a_rule_a_snooze_and_a_cancel(shell: Shell) -> None:
    when = ("--due", "2030-01-07T08:00+01:00", "--rrule", "FREQ=WEEKLY;BYDAY=MO", "--zone", "Europe/Berlin")
    ident = shell.json("reminder", "add", "plants", *when)["id"]
    assert "FREQ=WEEKLY;BYDAY=MO (Europe/Berlin)" in shell("reminder", "list")
    assert shell.json("reminder", "snooze", ident, "--until", "2030-01-08T00:00Z")["due_at"].startswith("2030-01-08")
    assert shell("reminder", "cancel", ident) == f"{ident} is cancelled\n"
    assert shell.fails("reminder", "snooze", ident) == "wrong_state"


def test_what_is_wrong_is_said(shell: Shell) -> None:
    assert shell.fails("reminder", "add", "tea") == "invalid_input"
    assert shell.fails("reminder", "add", "tea", "--due", "soon") == "invalid_input"
    assert shell.fails("reminder", "add", "tea", "--due", "2030-01-01T12:00") == "invalid_input"
    assert shell.fails("reminder", "list", "--state", "lost") == "invalid_input"
    assert shell.fails("reminder", "show", "nonsense") == "not_found"


def test_a_manager_sees_no_text_and_another_nothing(shell: Shell) -> None:
    shell("reminder", "add", "a secret", "--due", "1h", "--as", "kate")
    seen = shell("reminder", "list", "--agent", "kate", "--as", "ana")
    assert "waiting" in seen
    assert "secret" not in seen
    assert shell("reminder", "list", "--agent", "kate", "--as", "bob") == "no reminders\n"


def test_the_status_counts_those_that_wait_and_shows_no_text(shell: Shell) -> None:
    assert shell.json("status")["reminders"] == []
    shell("reminder", "add", "a secret", "--due", "1h")
    (counted,) = shell.json("status")["reminders"]
    assert (counted["waiting"], counted["overdue"], counted["failed"]) == (1, 0, 0)
    shown = shell("status")
    assert "reminders that wait" in shown
    assert "secret" not in shown
