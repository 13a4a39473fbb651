"""The structure of the code: no import cycles, one order of packages, limits for modules and functions."""

import ast
import functools
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = sorted(path for package in ("streamk", "connectors") for path in (ROOT / package).rglob("*.py"))
MOST_PARAMETERS, MOST_OPTIONS = 12, 32
MANY, FUNCTIONS_WITH_MANY = 7, 30  # parameters, and how many functions may have more
SHORTEST, REPEATED = 40, 8  # lines of a module, and of a repeated passage
OPTIONAL = {"matplotlib", "pandas"}  # may be imported for annotations only
MOST_ANY, MOST_IGNORED = 200, 15
VAGUE, MOST_VAGUE = r"\b(found|given|own|some|rest)\b", 60
ORDER = [  # a level imports itself and those before it, none after it
    {
        "streamk.arrays",
        "streamk.compiling",
        "streamk.figures",
        "streamk.html_tables",
        "streamk.kernels",
        "streamk.losses",
        "streamk.progress",
        "streamk.schedules",
        "streamk.state",
        "streamk.threads",
    },
    {"streamk.encoding", "streamk.vector"},
    {"streamk.dispatch", "streamk.features", "streamk.handles"},
    {
        "streamk.parameters",
        "streamk.experts",
        "streamk.combining",
        "streamk.model_file",
        "streamk.random_features",
    },
    {
        "streamk.drift",
        "streamk.exact",
        "streamk.learners",
        "streamk.evaluation",
    },
    {"streamk.distributed"},
    {"streamk"},
    {"connectors.events"},
    {"connectors.contract"},
    {"connectors.formats"},
    {"connectors.files.sections", "connectors.kafka.sections"},
    {"connectors.settings"},
    {"connectors.files", "connectors.kafka"},
    {"connectors.state"},
    {"connectors.operators"},
    {
        "connectors.daemon",
        "connectors.publish",
        "connectors.replay",
        "connectors.serving",
        "connectors.shards",
    },
    {"connectors.cli"},
]


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imports_of(path):
    """Modules of ours that a file imports, wherever in the file the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else node.module)
    return {name for name in found if name in MODULES}


@functools.cache
def graph():
    return {module: imports_of(path) for module, path in MODULES.items()}


def test_imports_have_no_circle():
    done, way = set(), []

    def visit(module):
        assert module not in way, " → ".join([*way[way.index(module) :], module])
        if module not in done:
            way.append(module)
            for other in graph()[module] - {module}:
                visit(other)
            done.add(way.pop())

    for module in graph():
        visit(module)


def level(module):
    if module == "connectors":
        return 0
    best = max((name for names in ORDER for name in names if (module + ".").startswith(name + ".")), key=len)
    return next(k for k, names in enumerate(ORDER) if best in names)


def test_imports_follow_the_order():
    back = [
        f"{module} imports {other}"
        for module in graph()
        for other in graph()[module]
        if level(other) > level(module)
    ]
    assert not back, "\n".join(back)


def over_files(rule):
    """Return a test that applies a rule to every file, and names each file that breaks it."""

    @functools.wraps(rule)
    def test():
        broken = []
        for path in FILES:
            try:
                rule(path)
            except AssertionError as error:
                broken.append(f"{path.relative_to(ROOT)}: {error}")
        assert not broken, "\n".join(broken)

    del test.__wrapped__  # pytest would ask for the rule's parameter
    return test


@over_files
def test_modules_have_clear_names(path):
    assert not {"utils", "helpers", "manager", "common"} & set(path.relative_to(ROOT).with_suffix("").parts)


@over_files
def test_functions_can_be_called(path):
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in ("__init__", "__call__"):
                continue
            # an option of a command is a parameter, and nobody else calls it
            most = MOST_OPTIONS if node.name.endswith("_command") else MOST_PARAMETERS
            taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            assert len(taken) <= most, f"{node.name} takes {len(taken)}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found = {alias.name for each in node.body if isinstance(each, ast.Import) for alias in each.names}
            found |= {each.module for each in node.body if isinstance(each, ast.ImportFrom)}
            assert {name.partition(".")[0] for name in found} <= OPTIONAL
    assert "locals()" not in source


COMPILED = {
    "njit",
    "intrinsic",
    "overload",
    "both",
    "implements",
    "default",
}  # decorators of functions whose types Numba infers


def lacks_annotations(function, parent):
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    if isinstance(parent, ast.ClassDef):
        arguments = [argument for argument in arguments if argument.arg not in ("self", "cls")]
    if any(argument.annotation is None for argument in arguments):
        return True
    return function.returns is None and function.name != "__init__"


@over_files
def test_only_compiled_functions_lack_annotations(path):
    """Mypy does not ask for them in these packages: it cannot tell a compiled function from others."""
    tree = ast.parse(path.read_text())
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def names_in(node):
        return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}

    def is_marked(node):
        return any(names_in(decorator) & COMPILED for decorator in node.decorator_list)

    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    used = set().union(*(names_in(node) for node in functions if is_marked(node)))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if names_in(call.func) & COMPILED:  # overload(…)(function)
            used |= set().union(*map(names_in, call.args))

    def is_compiled(node):
        while node is not None:
            if isinstance(node, ast.FunctionDef) and (is_marked(node) or node.name in used):
                return True
            node = parents.get(node)
        return False

    for node in functions:
        if lacks_annotations(node, parents[node]):
            assert is_compiled(node), f"{node.name} lacks annotations"


MACHINERY = {"streamk/compiling.py", "streamk/handles.py"}  # beside streamk/vector


@over_files
def test_vector_code_stands_in_one_package(path):
    place = str(path.relative_to(ROOT))
    if not place.startswith("streamk/vector/") and place not in MACHINERY:
        assert "@intrinsic" not in path.read_text()


TWICE = {"KernelClassifier", "KernelRegressor"}  # the estimators of streamk.sklearn have the learners' names


def test_no_class_name_stands_twice():
    names = Counter(
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == TWICE


def code_lines(path):
    """Return the lines of code with their numbers: without docstrings, comments, blanks."""
    source = path.read_text()
    strings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    silent = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER
    }  # fmt: skip
    used = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in silent
        for line in range(token.start[0], token.end[0] + 1)
    }
    lines = source.splitlines()
    return [(number, lines[number - 1].strip()) for number in sorted(used - strings)]


@over_files
def test_modules_are_no_fragments(path):
    if path.name not in ("__init__.py", "__main__.py"):
        assert len(path.read_text().splitlines()) >= SHORTEST


def test_no_passage_stands_twice():
    places = {}
    for path in FILES:
        imports = {
            line
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for line in range(node.lineno, node.end_lineno + 1)
        }
        lines = [(number, text) for number, text in code_lines(path) if number not in imports]
        for start in range(len(lines) - REPEATED + 1):
            passage = tuple(text for _, text in lines[start : start + REPEATED])
            if sum(map(len, passage)) >= 10 * REPEATED:  # not brackets and short names alone
                places.setdefault(passage, []).append(f"{path.relative_to(ROOT)}:{lines[start][0]}")
    twice = [where for where in places.values() if len(where) > 1]
    assert not twice, "\n".join(map(" and ".join, twice))


def test_few_functions_have_many_parameters():
    functions = [
        node.args
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    many = [f for f in functions if len([*f.posonlyargs, *f.args, *f.kwonlyargs]) > MANY]
    assert len(many) <= FUNCTIONS_WITH_MANY


def test_names_say_what_they_hold():
    """A variable that is ``found`` or ``given`` could be anything; the number of such words may only fall."""
    assert len(re.findall(VAGUE, "\n".join(path.read_text() for path in FILES))) <= MOST_VAGUE


def test_types_are_named():
    """``Any`` and ignored errors of mypy mark a missing protocol; their numbers may only fall."""
    sources = "\n".join(path.read_text() for path in FILES)
    assert len(re.findall(r"\bAny\b", sources)) <= MOST_ANY
    assert sources.count("type: ignore") < MOST_IGNORED


if __name__ == "__main__":  # lines of code by package
    counts = Counter()
    for path in FILES:
        counts[str(path.parent.relative_to(ROOT))] += len(code_lines(path))
    for package, count in sorted(counts.items()):
        print(f"{package:26}{count:8,}")
    print(f"{'all':26}{counts.total():8,}")
