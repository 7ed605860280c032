"""Moves options that several configuration files have in common into files of values/options/shared/."""

import collections
import json


def share(documents, includes):
    """Returns {name: sections} for the shared files, and removes the shared options from the documents.

    `documents` contains what a file of values/options contains, by name. `includes` contains the names of the shared
    files for each document, in the order in which they are read. An option goes to a shared file if all documents that
    include the file have it, and at least two of them describe it in the same way. The others keep their description.
    """
    shared = {}
    for part in dict.fromkeys(name for names in includes.values() for name in names):
        users = [name for name, names in includes.items() if part in names]
        shared[part] = common([documents[name]["sections"] for name in users])
        for user in users:
            earlier = includes[user][:includes[user].index(part)]
            if all(includes[other][:len(earlier)] == earlier for other in users):
                shared[part] = without(shared[part], merged(shared, earlier))
    for name, names in includes.items():
        documents[name]["sections"] = without(documents[name]["sections"], merged(shared, names))
    return shared


def common(all_sections):
    result = {}
    for section in sorted(set.intersection(*(set(sections) for sections in all_sections))):
        for option in sorted(set.intersection(*(set(sections[section]) for sections in all_sections))):
            descriptions = collections.Counter(json.dumps(sections[section][option]) for sections in all_sections)
            [(description, number)] = descriptions.most_common(1)
            if number > 1:
                result.setdefault(section, {})[option] = json.loads(description)
    return result


def merged(shared, names):
    result = {}
    for name in names:
        for section, options in shared[name].items():
            result.setdefault(section, {}).update(options)
    return result


def without(sections, known):
    """Returns the sections without the options that `known` describes in the same way, and without empty sections."""
    result = {}
    for section, options in sections.items():
        rest = {option: entry for option, entry in options.items() if known.get(section, {}).get(option) != entry}
        if rest or not options:
            result[section] = rest
    return result
