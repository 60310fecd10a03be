"""Names: what the attributes of a Catalyst plan are called in the plan made of it.

Catalyst tells columns apart by expression id, plans by name, and names need only differ where columns stand side by
side. So each attribute keeps its own name unless another of that name (in whatever case) is beside it somewhere; then
one of them becomes name_2, name_3 and so on. The user's result columns choose first: they are called as they were.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from whence.errors import NotTraceable
from whence.plan.hidden import PREFIX
from whence.spark.jvm import JavaObject, items

SEPARATOR = "\x1f"
_PRINTED = re.compile(r"(.*)#(\d+)L?(?:-T\d+ms)?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Names:
    """The names given so far, by expression id, and every name that stands anywhere in the plan."""

    by_id: dict[int, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def settle(self, scopes: Sequence[Sequence[tuple[int, str]]]) -> None:
        """Name all attributes, given as (expression id, name), that stand side by side in each scope.

        Attributes of earlier scopes choose first; the first scope is the result, whose names stay as they are.
        """
        for _, name in scopes[0] if scopes else ():
            refuse_hidden(name)
        rivals: dict[int, set[int]] = {}
        own: dict[int, str] = {}
        for scope in scopes:
            alike: dict[str, set[int]] = {}
            for identity, name in scope:
                own.setdefault(identity, _visible(name))
                alike.setdefault(own[identity].lower(), set()).add(identity)
            for identities in alike.values():
                for identity in identities:
                    rivals.setdefault(identity, set()).update(identities - {identity})
        self.taken.update(name.lower() for name in own.values())
        for identity, name in own.items():
            beside = {self.by_id[r].lower() for r in rivals[identity] if r in self.by_id}
            self.by_id[identity] = self.fresh(name) if name.lower() in beside else name

    def of(self, attribute: JavaObject) -> str:
        """The name of an attribute; one that no scope had gets a name of its own."""
        identity = identity_of(attribute)
        if identity not in self.by_id:
            self.by_id[identity] = self.fresh(attribute.name())
        return self.by_id[identity]

    def fresh(self, name: str) -> str:
        """The name itself if it stands nowhere in the plan, else one made of it; taken from now on."""
        name = _visible(name)
        unique, number = name, 1
        while unique.lower() in self.taken:
            number += 1
            unique = f"{name}_{number}"
        self.taken.add(unique.lower())
        return unique


def _visible(name: str) -> str:
    """The name itself, or what is behind the prefix of the names that rewritten plans carry."""
    return (name[len(PREFIX) :] or "column") if name.lower().startswith(PREFIX) else name


def refuse_hidden(name: str) -> None:
    """Raise where a column of a result or source has a name that only rewritten plans may carry."""
    if name.lower().startswith(PREFIX):
        raise NotTraceable(
            f"a column is called {name!r}",
            detail=f"names that start with {PREFIX} belong to whence",
            hint="rename the column: df.withColumnRenamed(...)",
        )


def identity_of(attribute: JavaObject) -> int:
    """The expression id of an attribute or alias, unique within a JVM."""
    return int(attribute.exprId().id())


def outline(attributes: JavaObject) -> list[tuple[int, str]]:
    """The expression ids and names of a Scala sequence of attributes, in one round trip to the JVM."""
    if attributes.isEmpty():
        return []
    found = [_PRINTED.match(text) for text in attributes.mkString(SEPARATOR).split(SEPARATOR)]
    matched = [(int(m.group(2)), m.group(1)) for m in found if m is not None]
    if len(matched) == attributes.size():
        return matched
    return [(identity_of(a), a.name()) for a in items(attributes)]
