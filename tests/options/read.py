"""Lists the options of configuration files, as the services installed beside this interpreter register them.

`generate` runs it inside of a virtual environment. Input on stdin: {file: [namespace, ...]}, the names under which
packages announce options to oslo.config's generator. All files must be of one service, because services change the
defaults of libraries. Output on stdout: {file: {section: {option: facts}}}, and problems on stderr. Facts follow the
format of values/options/*.json; "aliases" lists an option's older names.
"""

import functools
import json
import logging
import os
import re
import socket
import sys
from importlib import metadata

# Defaults that contain one of these values describe the machine that generates, so nobody should read them.
MACHINE = {"host": "generator-host", "address": "192.0.2.97", "processors": 97}

os.cpu_count = lambda: MACHINE["processors"]
socket.gethostname = socket.getfqdn = lambda *_: MACHINE["host"]

from oslo_config import cfg, generator, types  # noqa: E402
from oslo_utils import netutils  # noqa: E402

netutils.get_my_ipv4 = lambda: MACHINE["address"]

# The most specific class first: Port is an Integer.
KINDS = [
    (types.Boolean, "boolean"), (types.Port, "port"), (types.Integer, "integer"), (types.Float, "float"),
    (types.List, "list"), (types.Dict, "dict"), (types.URI, "uri"), (types.IPAddress, "ip"),
    (types.HostAddress, "host"), (types.Hostname, "host"), (types.String, "string"),
]


def main():
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    json.dump({file: sections_of(namespaces) for file, namespaces in json.load(sys.stdin).items()}, sys.stdout)


def sections_of(namespaces):
    # oslo.config fails if it cannot load a namespace, but ignores one that no package announces.
    missing = set(namespaces) - {entry_point.name for entry_point in metadata.entry_points(group="oslo.config.opts")}
    if missing:
        sys.exit(f"no installed package announces the options of {', '.join(sorted(missing))}")
    sections = {}
    for _, groups in generator._list_opts(namespaces):
        for group, options in groups:
            add(sections, group, options)
    # Modules also register options that no package announces, such as credentials of service users.
    registered = {"DEFAULT": cfg.CONF, **cfg.CONF._groups}
    for name, group in registered.items():
        if normal(name) in sections:
            add(sections, name, [item["opt"] for item in group._opts.values()], overwrite=False)
    for name, section in sections.items():
        # A section for credentials gets more options when the service loads the plugin that auth_type names.
        if "auth_type" in section or "auth_plugin" in section:
            add(sections, name, credentials(), overwrite=False)
    return sections


def normal(section):
    """Returns a section's name. oslo.config does not mind its case, except that of DEFAULT."""
    section = getattr(section, "name", section) or "DEFAULT"
    return section if section == "DEFAULT" else section.lower()


def add(sections, section, options, overwrite=True):
    section = normal(section)
    known = sections.setdefault(section, {})
    for option in options:
        if isinstance(option, cfg.SubCommandOpt):
            continue
        if overwrite or option.dest not in known:
            known[option.dest] = facts(option, section)


@functools.cache
def credentials():
    """Returns the options of all authentication plugins that keystoneauth contains."""
    from keystoneauth1 import loading

    # Several plugins have an option of the same name, with texts of their own; password's come first.
    names = sorted(loading.get_available_plugin_names(), key=lambda name: (name != "password", name))
    options = {}
    for name in names:
        try:
            plugin = loading.get_plugin_options(name)
        except Exception as error:  # A plugin raises what it likes when its library is missing.
            print(f"keystoneauth's plugin {name} has unknown options: {error}", file=sys.stderr)
            continue
        for option in plugin:
            options.setdefault(option.dest, option._to_oslo_opt())
    return list(options.values())


def facts(option, section):
    kind = option.type
    result = {"type": "multi" if option.multi else kind_name(kind)}
    # Services don't mind the case of these choices. The format has no word for that.
    if not getattr(kind, "ignore_case", False):
        choices = [c for c in getattr(kind, "choices", None) or [] if c is not None]
        if choices and not option.multi:
            result["choices"] = choices
    if result["type"] in ("integer", "float", "port"):
        bounds = {bound: getattr(kind, bound, None) for bound in ("min", "max")}
        every_port = result["type"] == "port" and bounds == {"min": 0, "max": 65535}
        result.update((b, v) for b, v in bounds.items() if v is not None and not every_port)
    default = default_of(option)
    if default is not None:
        result["default"] = default
    if option.deprecated_for_removal:
        result["deprecated"] = True
        result["why"] = sentence(option.deprecated_reason)
    result["help"] = sentence(option.help)
    old_names = {(normal(old.group or section), old.name or option.dest) for old in option.deprecated_opts}
    result["aliases"] = [".".join(name) for name in sorted(old_names)]
    return {key: value for key, value in result.items() if value not in ("", []) or key == "default"}


def kind_name(kind):
    # keystoneauth names types of Python itself.
    plain = {str: "string", int: "integer", float: "float", bool: "boolean"}
    if isinstance(kind, type):
        return plain.get(kind, "other")
    return next((name for known, name in KINDS if isinstance(kind, known)), "other")


def default_of(option):
    """Returns the default if it is short, no secret, and the same on each machine, else None."""
    if option.sample_default is not None or option.default is None or option.secret:
        return None
    try:
        text = json.dumps(option.default, sort_keys=True)
    except TypeError:
        return None
    machine = [*map(str, MACHINE.values()), sys.prefix, sys.base_prefix, os.path.expanduser("~"), os.getcwd()]
    return None if len(text) > 60 or any(value in text for value in machine) else option.default


def sentence(text):
    """Returns the first sentence, in plain ASCII, without markup."""
    text = re.sub(r"\s+", " ", text or "").strip().replace("``", "'")
    text = re.split(r"(?<=[^.]{2}[.!?])\s+(?=[A-Z*\[(])", text, maxsplit=1)[0]
    return text.encode("ascii", "ignore").decode()


if __name__ == "__main__":
    main()
