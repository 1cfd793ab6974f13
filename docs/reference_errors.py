"""The page of the reference about errors: every class, with the messages and remedies that the sources raise."""

import ast
import re

from reference_markdown import SOURCE, format_cell, format_table


def list_error_classes() -> dict[str, tuple[str, str]]:
    """Every error class by name, with its parent and its docstring, from the sources."""
    classes = {
        node.name: (base.id, ast.get_docstring(node) or "")
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases[:1]
        if isinstance(base, ast.Name)
    }
    known = {"TidegateError"}
    while found := {name for name, (base, _) in classes.items() if base in known} - known:
        known |= found
    return {name: classes[name] for name in sorted(known)}


def format_message(node: ast.expr, constants: dict[str, str]) -> str:
    """A message of the source; values in it are shown as names in braces."""
    if isinstance(node, ast.Name):
        return constants.get(node.id, "")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(each.value) if isinstance(each, ast.Constant) else "{" + name_value(each) + "}" for each in node.values
        )
    return ""


def list_text_constants(tree: ast.Module) -> dict[str, str]:
    return {
        name.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name)
    }


def name_value(node: ast.expr) -> str:
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    attributes = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)]
    return (attributes or names or ["value"])[0].strip("_")


def list_raised_errors(classes: dict[str, tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """The messages with which each class is raised, with their remedies."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        constants = list_text_constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes:
                texts = [format_message(each, constants) for each in node.args[:2]]
                if len(texts) == 2 and texts[0].strip():
                    found.setdefault(node.func.id, []).append((texts[0], texts[1]))
    return found


def write_error_page() -> str:
    classes = list_error_classes()
    raised = list_raised_errors(classes)
    parts = [
        "# Errors\n",
        "Every error of tidegate is a `TidegateError`. Its text says what happened and what to do next;"
        " `error.remedy` has the second part alone. Values that are filled in are shown in braces."
        " Texts that the code puts together from several parts are not listed.\n",
    ]
    for name, (base, about) in classes.items():
        parent = f"A `{base}`. " if base in classes else ""
        rows = [
            (escape_message(cause), escape_message(remedy) or "(depends on the cause)")
            for cause, remedy in dict.fromkeys(raised.get(name, ()))
        ]
        table = format_table(("what happened", "what to do"), rows) if rows else ""
        parts.append(f"## {name}\n\n{parent}{about.replace('<', '&lt;')}\n\n{table}")
    return "\n".join(parts)


def escape_message(text: str) -> str:
    return (
        re.sub(r"([*_<\[\]])", r"\\\1", format_cell(text))
        if "`" not in text
        else format_cell(text).replace("<", "&lt;")
    )
