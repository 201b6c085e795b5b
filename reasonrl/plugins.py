"""The hooks a plugin may implement, and the manager that finds plugins. pluggy lives only here.

Plugins are found by the entry-point group `reasonrl`; the bundled verifiers use the same group as everybody else.
pluggy by itself has three traps that this module closes: of two plugins with one entry-point name it silently drops
the second; one plugin whose import fails aborts the discovery of all; a misspelt hook is silently ignored.
"""

import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

import pluggy
from pydantic import BaseModel, ValidationError

from reasonrl import environment
from reasonrl.errors import ReasonRLError
from reasonrl.verifier import Verifier

GROUP = "reasonrl"
hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


class Hooks:
    """The hook specifications: pure functions, testable without a host."""

    @hookspec
    def reasonrl_verifiers(self) -> list[type[Verifier]]:  # type: ignore[empty-body]
        """The verifier classes this plugin brings."""

    @hookspec
    def reasonrl_tasks(self) -> list[Path]:  # type: ignore[empty-body]
        """Folders of task YAMLs this plugin brings."""


@dataclass(frozen=True)
class BrokenPlugin:
    """A plugin that was found but cannot be used, with the traceback or message that says why."""

    plugin: str
    distribution: str
    error: str


@dataclass(frozen=True)
class VerifierSource:
    """A verifier class and where it comes from. Name and version travel with every stored verdict."""

    verifier: type[Verifier]
    plugin: str
    distribution: str
    version: str


class Plugins:
    """The plugins found once, with their verifiers and task folders.

    Args:
        dists: the distributions to search; all installed ones by default.

    Raises:
        ReasonRLError: two plugins share an entry-point name, or two offer the same verifier name; both are named.
    """

    def __init__(self, dists: Iterable[Distribution] | None = None) -> None:
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(Hooks)
        self.broken: list[BrokenPlugin] = []
        self.verifiers: dict[str, VerifierSource] = {}
        self.task_folders: list[Path] = []
        for entry_point, dist in _entry_points(distributions() if dists is None else dists):
            try:
                offered = self._load(entry_point)
            except Exception:  # noqa: BLE001  one broken plugin must not abort the discovery of the others
                plugin = self._manager.get_plugin(entry_point.name)
                if plugin is not None:
                    self._manager.unregister(plugin)
                self.broken.append(BrokenPlugin(entry_point.name, dist.name, traceback.format_exc().rstrip()))
                continue
            verifiers, folders = offered
            for verifier in verifiers:
                self._offer(VerifierSource(verifier, entry_point.name, dist.name, dist.version))
            self.task_folders.extend(folders)

    def _load(self, entry_point: EntryPoint) -> tuple[list[type[Verifier]], list[Path]]:
        plugin = entry_point.load()
        self._manager.register(plugin, name=entry_point.name)
        self._manager.check_pending()  # a misspelt hook raises here, while this plugin is the only suspect
        if not self._manager.get_hookcallers(plugin):
            raise TypeError(f"{entry_point.value} implements no hook of {GROUP}; is @hookimpl missing?")
        others = [p for p in self._manager.get_plugins() if p is not plugin]
        hooks = {
            name: self._manager.subset_hook_caller(name, remove_plugins=others)()
            for name in ("reasonrl_verifiers", "reasonrl_tasks")
        }
        verifiers = [v for offered in hooks["reasonrl_verifiers"] for v in offered]
        for verifier in verifiers:
            if not (isinstance(verifier, type) and issubclass(verifier, Verifier) and hasattr(verifier, "name")):
                raise TypeError(f"reasonrl_verifiers must return Verifier classes with a name, not {verifier!r}")
        return verifiers, [Path(folder) for offered in hooks["reasonrl_tasks"] for folder in offered]

    def _offer(self, source: VerifierSource) -> None:
        name = source.verifier.name
        if name in self.verifiers:
            first = self.verifiers[name]
            raise ReasonRLError(
                f"two plugins offer a verifier named {name!r}: {first.plugin} ({first.distribution}) and "
                f"{source.plugin} ({source.distribution}); uninstall one of them"
            )
        self.verifiers[name] = source

    def verifier(self, name: str) -> VerifierSource:
        """The verifier of that name.

        Raises:
            ReasonRLError: there is none; the message lists those there are and shows why a plugin is broken.
        """
        if name in self.verifiers:
            return self.verifiers[name]
        message = f"no verifier is named {name!r}; installed are: {', '.join(sorted(self.verifiers)) or 'none'}"
        for broken in self.broken:
            message += f"\nplugin {broken.plugin} ({broken.distribution}) could not be loaded:\n{broken.error}"
        raise ReasonRLError(message)

    def options(self, name: str, values: dict[str, object]) -> BaseModel:
        """The validated options of the verifier of that name, its secrets taken from the environment.

        Raises:
            ReasonRLError: a key is unknown or a value has the wrong type (the message names the keys there are), or
                a secret's environment variable is not set.
        """
        options = self.verifier(name).verifier.Options
        filled, faults = environment.fill_secrets(options, values)
        if not faults:
            try:
                return options.model_validate(filled)
            except ValidationError as error:
                faults = [(e["loc"], e["msg"]) for e in error.errors()]
        told = "; ".join(": ".join([*map(str, keys), text]) for keys, text in faults)
        known = ", ".join(options.model_fields) or "none"
        raise ReasonRLError(f"options of verifier {name!r}: {told} (its options: {known})")


def _entry_points(dists: Iterable[Distribution]) -> list[tuple[EntryPoint, Distribution]]:
    """Entry points of our group with the distribution each belongs to, in order of name.

    A distribution can be seen twice (editable install and checkout on the path); that is no clash.
    """
    found: dict[str, tuple[EntryPoint, Distribution]] = {}
    for dist in dists:
        for entry_point in dist.entry_points:
            if entry_point.group != GROUP:
                continue
            first = found.setdefault(entry_point.name, (entry_point, dist))
            if first[1].name != dist.name:
                raise ReasonRLError(
                    f"two plugins have the entry-point name {entry_point.name!r}: "
                    f"{first[1].name} ({first[0].value}) and {dist.name} ({entry_point.value}); uninstall one of them"
                )
    return [found[name] for name in sorted(found)]


@cache
def installed() -> Plugins:
    """The plugins of this installation, found once per process."""
    return Plugins()
