"""Commands whose parameters are groups of options."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin, get_type_hints

EMPTY, KEYWORD = Parameter.empty, Parameter.KEYWORD_ONLY


def takes(names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the arguments and options `names`, in the order of `--help`.

    Each is a parameter of the decorated function, or a field of a parameter that is a dataclass. Fields without a name
    here keep their defaults.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        types = dict(hints)
        for group in groups.values():
            types |= {name: _one_type(hint) for name, hint in get_type_hints(group, include_extras=True).items()}
            defaults |= {field.name: EMPTY if field.default is MISSING else field.default for field in fields(group)}

        @functools.wraps(function)
        def command(**values: Any) -> None:
            arguments = {name: value for name, value in values.items() if name in hints}
            for name, group in groups.items():
                named = {field.name for field in fields(group)}
                arguments[name] = group(**{field: value for field, value in values.items() if field in named})
            function(**arguments)

        parameters = [
            Parameter(name, KEYWORD, annotation=types[name], default=defaults[name]) for name in names.split()
        ]
        vars(command)["__signature__"] = inspect.Signature(parameters)
        return command

    return decorate


def _one_type(hint: Any) -> Any:
    """The type of an option, which is text where Python takes a number too: Typer has no unions."""
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else [hint]
    return Annotated[str | None, *metadata] if kind == str | int | None else hint
