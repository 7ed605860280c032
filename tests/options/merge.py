"""Merges the options of one configuration file in several OpenStack releases into what values/options/*.json holds."""

import json

# Longer texts end in three dots.
HELP = 100


def merge(releases):
    """Returns {section: {option: entry}} for {release: {section: {option: facts}}}, as `read.py` prints the facts."""
    found = {}
    for release, sections in releases.items():
        for section, options in with_aliases(sections).items():
            for option, facts in options.items():
                found.setdefault(section, {}).setdefault(option, {})[release] = facts
    every = list(releases)
    return {section: {option: entry(found[section][option], every) for option in sorted(found[section])}
            for section in sorted(found)}


def with_aliases(sections):
    """Returns the sections with each older name of an option as an option that only says where it has gone."""
    result = {}
    for section, options in sections.items():
        known = result.setdefault(section, {})
        for option, facts in options.items():
            known[option] = {key: value for key, value in facts.items() if key != "aliases"}
    for section, options in sorted(sections.items()):
        for option, facts in sorted(options.items()):
            for alias in facts.get("aliases", []):
                old_section, old_option = alias.rsplit(".", 1)
                old = result.setdefault(old_section, {})
                old.setdefault(old_option, {"renamed": f"{section}.{option}"})
    return result


def entry(by_release, every):
    """Returns one object if the option is the same in all releases that have it, else one for each difference."""
    variants = []
    for release, facts in by_release.items():
        same = next((variant for variant in variants if alike(variant[-1][1], facts)), None)
        if same is None:
            variants.append([(release, facts)])
        else:
            same.append((release, facts))
    entries = [variant_entry(variant, every) for variant in variants]
    return entries[0] if len(entries) == 1 else entries


def alike(one, other):
    """Two releases agree about an option if only its texts differ, or whether it is deprecated."""
    return lasting(one) == lasting(other)


def lasting(facts):
    return {key: value for key, value in facts.items() if key not in ("help", "why", "deprecated")}


def variant_entry(variant, every):
    newest = variant[-1][1]
    result = {key: newest[key] for key in ("renamed", "type", "choices", "min", "max", "default") if key in newest}
    releases = [release for release, _ in variant]
    if "deprecated" in newest:
        result["deprecated"] = next(release for release, facts in variant if "deprecated" in facts)
    result.update({key: short(newest[key]) for key in ("why", "help") if key in newest})
    if releases != every:
        result["in"] = releases
    return result


def short(text):
    return text if len(text) <= HELP else text[:HELP - 3].rsplit(" ", 1)[0].rstrip(",;:.(") + "..."


def render(document):
    """Returns the document as JSON with one option in each line, so that a diff shows options."""
    head = [f"{line(key)}:{line(value)}" for key, value in document.items() if key != "sections"]
    return "{\n" + ",\n".join(head) + ',\n"sections":' + render_sections(document["sections"])[:-1] + "}\n"


def render_sections(sections):
    result = []
    for section, options in sections.items():
        body = ",\n".join(f"{line(option)}:{line(entry)}" for option, entry in options.items())
        result.append(f"{line(section)}:{{\n{body}\n}}")
    return "{\n" + ",\n".join(result) + "\n}\n"


def line(value):
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
