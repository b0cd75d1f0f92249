"""Announces a process that serves to clients that look for members in the local network (decision 86)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mercury.engine.discovery_settings import DiscoverySettings
from mercury.engine.runtime.multicast_agent import MulticastMember
from mercury.engine.runtime.zeroconf_agent import ZeroconfMember

log = logging.getLogger("mercury.runtime")


class Announcing:
    """Announces this process while it serves, if the settings say so. Thread-safe.

    :param address: where clients reach this process, ``http://host:port``; ``None`` = it is not announced.
    :param new_id: makes a name that no other process has.
    """

    def __init__(self, settings: DiscoverySettings, address: str | None, new_id: Callable[[], str]) -> None:
        self._settings = settings
        self._address = address
        self._new_id = new_id
        self._mutex = threading.Lock()
        self._running: list[MulticastMember | ZeroconfMember] = []

    def start(self) -> None:
        """Announce it. Started twice is started once.

        :raises ConfigurationError: it cannot be announced at the interface of the settings.
        """
        settings, address = self._settings, (self._address or "").rstrip("/")
        with self._mutex:
            if not address or self._running:
                return
            try:
                if settings.multicast is not None:
                    member = MulticastMember(settings.multicast, settings.group, address, settings.interface)
                    self._running.append(member)
                if settings.zeroconf is not None:
                    instance = f"mercury-{self._new_id().rpartition(':')[2]}"[:63]
                    self._running.append(
                        ZeroconfMember(settings.zeroconf, settings.group, address, settings.interface, instance)
                    )
            except BaseException:
                self._end()
                raise
            if self._running:
                log.info("%s is announced to the group %s", address, settings.group)

    def stop(self) -> None:
        """Announce it no more. No thread is left afterwards."""
        with self._mutex:
            self._end()

    def _end(self) -> None:
        running, self._running = self._running, []
        for each in running:
            each.stop()
