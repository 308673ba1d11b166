"""All attacks, by name; one module for each kind."""

from tests.harness.noisy.attack import Attack
from tests.harness.noisy.attacks import (
    bodies,
    canvases,
    components,
    connections,
    documents,
    floods,
    sessions,
    templates,
    upstreams,
    webhooks,
)

ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for module in (
        bodies,
        webhooks,
        templates,
        components,
        canvases,
        documents,
        connections,
        floods,
        sessions,
        upstreams,
    )
    for attack in module.ATTACKS
}
