"""The nodes of templates, and the place of the error in an invalid one."""

from __future__ import annotations

import pytest

from activator.telemetry.gotemplate.errors import At, TemplateError
from activator.telemetry.gotemplate.nodes import (
    Action,
    Branch,
    Constant,
    Dot,
    Field,
    Function,
    Pipe,
    Text,
    Variable,
)
from activator.telemetry.gotemplate.parser import parse, position_of


def test_commands_are_given_what_came_before() -> None:
    at = At(1, 4)
    assert parse("a{{.X.Y | js}}") == (
        Text("a"),
        Action(
            Pipe(
                at,
                (
                    (Field(At(1, 6), Field(at, Dot(at), "X"), "Y"),),
                    (Function(At(1, 11), "js"),),
                ),
            )
        ),
    )


def test_branches_hold_what_is_between_their_words() -> None:
    (branch,) = parse("{{range $k, $v := .}}a{{else}}b{{end}}")
    assert isinstance(branch, Branch)
    assert (branch.word, branch.body, branch.otherwise) == ("range", (Text("a"),), (Text("b"),))
    assert (branch.pipe.names, branch.pipe.declares) == (("$k", "$v"), True)


def test_else_if_is_a_branch_inside_of_else() -> None:
    (branch,) = parse("{{if 1}}a{{else if 2}}b{{else}}c{{end}}d")[:1]
    assert isinstance(branch, Branch)
    (inner,) = branch.otherwise
    assert isinstance(inner, Branch)
    assert (inner.body, inner.otherwise) == ((Text("b"),), (Text("c"),))


def test_a_variable_is_set_or_used() -> None:
    declared, changed, used = parse("{{$x := 1}}{{$x = 2}}{{$x}}")
    assert isinstance(declared, Action)
    assert isinstance(changed, Action)
    assert (declared.pipe.declares, changed.pipe.declares) == (True, False)
    at = At(1, 24)
    assert used == Action(Pipe(at, ((Variable(at, "$x"),),)))


def test_constants_are_read() -> None:
    found = parse("{{print 1 2.5 \"a\" 'b' true nil}}")[0]
    assert isinstance(found, Action)
    values = [each.value for each in found.pipe.commands[0] if isinstance(each, Constant)]
    assert values == [1, 2.5, "a", 98, True, None]


def test_an_operand_begins_where_its_first_part_does() -> None:
    action = parse("{{ .X.Y }}")[0]
    assert isinstance(action, Action)
    assert position_of(action.pipe.commands[0][0]) == At(1, 4)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{end}}", "1:3: unexpected end"),
        ("{{if 1}}{{else}}{{else}}{{end}}", "1:19: unexpected else; the end of if in 1:3 is"),
        ("{{if 1}}{{else with 1}}{{end}}", "1:16: unexpected with after else of if"),
        ("{{1 | 2}}", "1:7: a value cannot be given to a value that is no function"),
        ("{{$x, $y := 1}}", "1:5: too many variables"),
        ("{{range $a, $b, $c := 1}}{{end}}", "1:15: too many variables"),
        ("{{true.X}}", "1:7: true has no fields"),
        ("{{print.X}}", "1:8: print has no fields"),
        ("{{print (1}}", "1:11: unexpected }}"),
        ("{{08}}", "1:3: 08 is no number"),
        ("{{if}}{{end}}", "1:5: a value or a function is missing"),
        ("{{end}", "1:6: unexpected '}'"),
        ('{{template "x"}}', "1:3: template is not offered here"),
    ],
)
def test_where_and_why_it_is_none(template: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(template)
    assert str(caught.value).startswith(reason)
