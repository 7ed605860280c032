package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
)

// serve returns a cluster whose API server responds to each path with a document, and otherwise with 404.
func serve(t *testing.T, documents map[string]string) *cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, found := documents[r.URL.RequestURI()]
		if !found || r.Header.Get("Authorization") != "Bearer secret" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(document))
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir() + "/"
	if err := os.WriteFile(folder+"token", []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &cluster{address: server.URL, account: folder, namespace: "openstack", pod: "self", http: server.Client()}
}

func variables(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestReadsEveryVariable(t *testing.T) {
	c := &cluster{namespace: "openstack"}
	all, err := c.needs(variables(map[string]string{
		"DEPENDENCY_SERVICE":   "default:mariadb,keystone-api",
		"DEPENDENCY_JOBS":      "nova-db-sync",
		"DEPENDENCY_DAEMONSET": "ceph:mon",
		"DEPENDENCY_JOBS_JSON": `[{"labels": {"application": "rabbitmq"}}]`,
		"DEPENDENCY_POD_JSON":  `[{"namespace": "other", "labels": {"application": "neutron"}, "requireSameNode": true}]`,
		"DEPENDENCY_SOCKET":    "/run/a.sock",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, n := range all {
		found = append(found, n.what)
	}
	expected := []string{
		"Service default/mariadb", "Service openstack/keystone-api", "Job openstack/nova-db-sync", "DaemonSet ceph/mon",
		"Jobs in openstack with the labels map[application:rabbitmq]",
		"a pod in other with the labels map[application:neutron]", "socket /run/a.sock",
	}
	if !slices.Equal(found, expected) {
		t.Fatal(found)
	}
}

func TestRefusesWhatItDoesNotSupport(t *testing.T) {
	for _, values := range []map[string]string{
		{"DEPENDENCY_CONTAINER": "nova"},
		{"DEPENDENCY_CUSTOM_RESOURCE": "[]"},
		{"DEPENDENCY_POD_JSON": "{"},
	} {
		if _, err := (&cluster{}).needs(variables(values)); err == nil {
			t.Errorf("%v was accepted", values)
		}
	}
}

func TestServiceNeedsAReadyPod(t *testing.T) {
	c := serve(t, map[string]string{
		"/api/v1/namespaces/openstack/endpoints/up":   `{"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}`,
		"/api/v1/namespaces/openstack/endpoints/down": `{"subsets": [{"notReadyAddresses": [{"ip": "10.0.0.1"}]}]}`,
	})
	if err := c.service("openstack", "up"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"down", "missing"} {
		if c.service("openstack", name) == nil {
			t.Errorf("the Service %s is not available", name)
		}
	}
}

func TestJobsMustAllBeComplete(t *testing.T) {
	const jobs = "/apis/batch/v1/namespaces/openstack/jobs"
	c := serve(t, map[string]string{
		jobs + "/done":                   `{"status": {"succeeded": 1}}`,
		jobs + "/runs":                   `{"status": {"active": 1}}`,
		jobs + "?labelSelector=a%3Ddone": `{"items": [{"status": {"succeeded": 1}}]}`,
		jobs + "?labelSelector=a%3Dsome": `{"items": [{"status": {"succeeded": 1}}, {"status": {}}]}`,
		jobs + "?labelSelector=a%3Dnone": `{"items": []}`,
	})
	if err := c.job("openstack", "done"); err != nil {
		t.Error(err)
	}
	if c.job("openstack", "runs") == nil {
		t.Error("a running Job was accepted")
	}
	if err := c.jobs("openstack", map[string]string{"a": "done"}); err != nil {
		t.Error(err)
	}
	for _, value := range []string{"some", "none"} {
		if c.jobs("openstack", map[string]string{"a": value}) == nil {
			t.Errorf("Jobs with the label a=%s were accepted", value)
		}
	}
}

func TestPodOfADaemonSetMustBeReadyOnTheSameNode(t *testing.T) {
	ready := `"conditions": [{"type": "Ready", "status": "True"}]`
	documents := map[string]string{
		"/apis/apps/v1/namespaces/openstack/daemonsets/ovs": `{"spec": {"selector": {"matchLabels": {"a": "ovs"}}}}`,
		"/api/v1/namespaces/openstack/pods?labelSelector=a%3Dovs": `{"items": [{"status": {"hostIP": "10.0.0.1", ` + ready +
			`}}, {"status": {"hostIP": "10.0.0.2"}}]}`,
		"/api/v1/namespaces/openstack/pods/self": `{"status": {"hostIP": "10.0.0.1"}}`,
	}
	if err := serve(t, documents).daemonSet("openstack", "ovs"); err != nil {
		t.Error(err)
	}
	documents["/api/v1/namespaces/openstack/pods/self"] = `{"status": {"hostIP": "10.0.0.2"}}`
	if serve(t, documents).daemonSet("openstack", "ovs") == nil {
		t.Error("a pod that is not ready was accepted")
	}
}
