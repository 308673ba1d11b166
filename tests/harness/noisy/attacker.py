"""The process that attacks: ``python -m tests.harness.noisy.attacker ATTACK``.

It reads a `Target` as JSON from stdin, prints a line when it begins, attacks until stdin ends, and prints the counted
responses. Its priority is low, because the processor of a real attacker is elsewhere.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import suppress

from tests.harness.noisy.attack import Attack, Attacker, Target
from tests.harness.noisy.attacks import ATTACKS

PREPARATION_S = 30.0
LOW_PRIORITY = 19
"""The lowest: it uses what the server and its neighbour leave."""
PATIENCE_S = 10.0
"""How long an attack goes on after its end if nothing has been answered: the machine is busy."""


async def _repeat(attack: Attack, attacker: Attacker) -> None:
    while True:
        began = time.monotonic()
        try:
            await attack.step(attacker)
        except (OSError, EOFError) as error:
            attacker.answers[type(error).__name__] += 1
        # A step that returns at once must leave the other clients time.
        await asyncio.sleep(attack.pause_s if time.monotonic() - began > 0.001 else max(attack.pause_s, 0.01))


async def play(attack: Attack, target: Target) -> Attacker:
    """Play an attack until stdin ends and something is answered; return the attacker."""
    attacker = Attacker(target)
    end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    clients: list[asyncio.Task[None]] = []
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(attack.prepare(attacker), PREPARATION_S)
        clients += [asyncio.create_task(_repeat(attack, attacker)) for _ in range(attack.at_once)]
        done, _ = await asyncio.wait([end, *clients], return_when=asyncio.FIRST_COMPLETED)
        for ended in done:
            ended.result()
        until = time.monotonic() + PATIENCE_S
        while not attacker.answers and time.monotonic() < until:
            await asyncio.sleep(0.05)
    finally:
        for client in clients:
            client.cancel()
        await asyncio.wait([*clients, asyncio.create_task(attacker.client.aclose())], timeout=5)
    return attacker


def main() -> None:
    """Play the attack, and print what was answered."""
    os.nice(LOW_PRIORITY)
    attack = ATTACKS[sys.argv[1]]
    target = Target.model_validate_json(sys.stdin.readline())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    attacker = asyncio.run(play(attack, target))
    sys.stdout.write(json.dumps(dict(attacker.answers.most_common())) + "\n")
    sys.stdout.flush()
    os._exit(0)  # connections that are never read would delay the interpreter's exit


if __name__ == "__main__":
    main()
