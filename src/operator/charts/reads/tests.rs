use super::*;

/// Returns the paths of the values that a chart with `files` reads. A path ends in `.*` if the chart may also read any
/// key below the path.
fn read(files: &[(&str, &str)]) -> Vec<String> {
    let reads = reads(files.iter().map(|(path, text)| (*path, text.as_bytes())));
    reads.iter().map(|(path, is_whole)| format!("{}{}", path.join("."), if *is_whole { ".*" } else { "" })).collect()
}

fn template(text: &str) -> Vec<String> {
    read(&[("templates/a.yaml", text)])
}

#[test]
fn recognizes_all_ways_to_read_a_path() {
    for (text, expected) in [
        ("{{ .Values.a.b }}", "a.b.*"),
        ("{{- $envAll.Values.a -}}", "a.*"),
        ("{{ if $.Values.a.b }}x{{ end }}", "a.b"),
        ("{{ else if and .Values.a }}", "a"),
        ("{{ index .Values.a \"b-c\" \"d\" }}", "a.b-c.d.*"),
        ("{{ index (index $x.Values \"a\") $name }}", "a.*"),
        ("{{ if hasKey .Values.pod \"user\" }}", "pod.user"),
        ("{{ dig \"a\" $b false .Values.pod }}", "pod.a.*"),
        ("{{ dig \"a\" \"b\" \"none\" (.Values.pod | default dict) }}", "pod.a.b.*"),
        ("{{ range $k, $v := .Values.flavors }}", "flavors.*"),
        ("{{ tuple . .Values.pod.resources.api | include \"x\" }}", "pod.resources.api.*"),
        ("{{ (index . 0).Values.a }}", "a.*"),
        ("{{ eq .Values.a \"b\" }}", "a.*"),
    ] {
        assert_eq!(template(text), [expected], "{text}");
    }
}

#[test]
fn resolves_aliases_of_paths() {
    let text = "{{ $pod := .Values.pod | default dict }}{{ $labels := $pod.labels }}{{ index $labels $c }}{{ $labels.default }}\
                {{ $pod := dict }}{{ $pod.colour }}";
    assert_eq!(template(text), ["pod.labels.*", "pod.labels.default.*"]);
}

#[test]
fn ignores_comments_and_writes() {
    let text = "{{/* {{ .Values.a }} */}}{{- $_ := set .Values.conf \"b\" 1 }}{{ omit .Values.conf \"c\" }}{{ .Values._d }}.Values.e{{ .Release.Name }}";
    assert_eq!(template(text), Vec::<String>::new());
}

#[test]
fn includes_used_library_templates_only() {
    let library = "{{ define \"one\" }}{{ if .x }}{{ .Values.one }}{{ end }}{{ include \"two\" . }}{{ end }}\
                   {{ define \"two\" }}{{ .Values.two }}{{ end }}{{ define \"three\" }}{{ .Values.three }}{{ end }}";
    let files = [
        ("charts/helm-toolkit/templates/_a.tpl", library),
        ("charts/other/templates/a.yaml", "{{ .Values.four }}"),
        ("templates/a.yaml", "{{ tuple . \"one\" | include \"x\" }}"),
        ("values.yaml", "conf: '{{ .Values.five }}'\n"),
        ("README.md", "{{ .Values.six }}"),
    ];
    assert_eq!(read(&files), ["five.*", "helm-toolkit.*", "one.*", "other.*", "two.*"]);
}
