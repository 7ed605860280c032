// Command kubernetes-entrypoint waits until the objects that a pod needs are available, and then ends.
//
// It replaces airship/kubernetes-entrypoint: the charts of OpenStack-Helm describe the objects in the variables
// DEPENDENCY_* of an init container (helm-toolkit: snippets/_kubernetes_entrypoint_init_container.tpl). This program
// reads DEPENDENCY_SERVICE, DEPENDENCY_JOBS, DEPENDENCY_JOBS_JSON, DEPENDENCY_DAEMONSET, DEPENDENCY_POD_JSON and
// DEPENDENCY_SOCKET. It fails if DEPENDENCY_CONTAINER, DEPENDENCY_CUSTOM_RESOURCE or DEPENDENCY_CONFIG is set.
//
// With the argument `pause`, the program runs as the container that keeps the namespaces of a pod: it only waits for a
// signal to end.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The folder into which the kubelet mounts the token of the pod's service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// The time between two requests for an object that is not available yet.
const interval = 2 * time.Second

// need is one object that must be available.
type need struct {
	what  string
	check func() error
}

// selection is an entry of DEPENDENCY_POD_JSON or DEPENDENCY_JOBS_JSON.
type selection struct {
	Namespace       string            `json:"namespace"`
	Labels          map[string]string `json:"labels"`
	RequireSameNode bool              `json:"requireSameNode"`
}

// pod contains the fields of a pod that this program reads.
type pod struct {
	Metadata struct{ Name string }
	Status   struct {
		HostIP     string
		Conditions []struct{ Type, Status string }
	}
}

func (p pod) isReady() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c struct{ Type, Status string }) bool {
		return c.Type == "Ready" && c.Status == "True"
	})
}

type job struct {
	Metadata struct{ Name string }
	Status   struct{ Succeeded int }
}

// cluster sends requests to the API server with the rights of the pod's service account.
type cluster struct {
	address   string
	account   string
	namespace string
	pod       string
	http      *http.Client
}

// get reads the object or list at a path of the API server.
func (c *cluster) get(path string, result any) error {
	// The kubelet renews the token, so read it for each request.
	token, err := os.ReadFile(c.account + "token")
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodGet, c.address+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return json.NewDecoder(response.Body).Decode(result)
}

func (c *cluster) service(namespace, name string) error {
	var endpoints struct{ Subsets []struct{ Addresses []any } }
	if err := c.get("/api/v1/namespaces/"+namespace+"/endpoints/"+name, &endpoints); err != nil {
		return err
	}
	for _, subset := range endpoints.Subsets {
		if len(subset.Addresses) > 0 {
			return nil
		}
	}
	return errors.New("it has no ready pod")
}

func (c *cluster) job(namespace, name string) error {
	var found job
	if err := c.get("/apis/batch/v1/namespaces/"+namespace+"/jobs/"+name, &found); err != nil {
		return err
	}
	if found.Status.Succeeded == 0 {
		return errors.New("not complete")
	}
	return nil
}

// jobs checks that at least one Job has the labels, and that all these Jobs are complete.
func (c *cluster) jobs(namespace string, labels map[string]string) error {
	var found struct{ Items []job }
	if err := c.get("/apis/batch/v1/namespaces/"+namespace+"/jobs"+query(labels), &found); err != nil {
		return err
	}
	if len(found.Items) == 0 {
		return errors.New("no such Job exists")
	}
	for _, item := range found.Items {
		if item.Status.Succeeded == 0 {
			return errors.New(item.Metadata.Name + " is not complete")
		}
	}
	return nil
}

// pods checks that at least one pod with the labels is ready.
func (c *cluster) pods(namespace string, labels map[string]string, sameNode bool) error {
	var own pod
	if sameNode {
		if err := c.get("/api/v1/namespaces/"+c.namespace+"/pods/"+c.pod, &own); err != nil {
			return err
		}
	}
	var found struct{ Items []pod }
	if err := c.get("/api/v1/namespaces/"+namespace+"/pods"+query(labels), &found); err != nil {
		return err
	}
	for _, item := range found.Items {
		if item.isReady() && (!sameNode || item.Status.HostIP == own.Status.HostIP) {
			return nil
		}
	}
	return errors.New("no such pod is ready")
}

// daemonSet checks that the DaemonSet's pod on this pod's node is ready.
func (c *cluster) daemonSet(namespace, name string) error {
	var found struct {
		Spec struct {
			Selector struct{ MatchLabels map[string]string }
		}
	}
	if err := c.get("/apis/apps/v1/namespaces/"+namespace+"/daemonsets/"+name, &found); err != nil {
		return err
	}
	return c.pods(namespace, found.Spec.Selector.MatchLabels, true)
}

func socket(path string) error {
	found, err := os.Stat(path)
	if err == nil && found.Mode()&os.ModeSocket == 0 {
		return errors.New("not a socket")
	}
	return err
}

func query(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for key, value := range labels {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	return "?labelSelector=" + url.QueryEscape(strings.Join(pairs, ","))
}

// words splits the value of a variable at its commas.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// split separates NAMESPACE:NAME. Without a namespace, the object is in the pod's namespace.
func split(text, namespace string) (string, string) {
	if before, after, found := strings.Cut(text, ":"); found {
		return before, after
	}
	return namespace, text
}

// selections reads a list of labels in JSON, such as [{"labels": {"application": "neutron"}}].
func selections(text, namespace string) ([]selection, error) {
	if text == "" {
		return nil, nil
	}
	var found []selection
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, err
	}
	for index := range found {
		if found[index].Namespace == "" {
			found[index].Namespace = namespace
		}
	}
	return found, nil
}

// needs returns the objects in the variables DEPENDENCY_*. It looks up the variables with env.
func (c *cluster) needs(env func(string) string) ([]need, error) {
	for _, name := range []string{"DEPENDENCY_CONTAINER", "DEPENDENCY_CUSTOM_RESOURCE", "DEPENDENCY_CONFIG"} {
		if env(name) != "" {
			return nil, fmt.Errorf("%s is set, but this program does not support it", name)
		}
	}
	var all []need
	named := func(variable, kind string, check func(namespace, name string) error) {
		for _, word := range words(env(variable)) {
			namespace, name := split(word, c.namespace)
			all = append(all, need{kind + " " + namespace + "/" + name, func() error { return check(namespace, name) }})
		}
	}
	named("DEPENDENCY_SERVICE", "Service", c.service)
	named("DEPENDENCY_JOBS", "Job", c.job)
	named("DEPENDENCY_DAEMONSET", "DaemonSet", c.daemonSet)
	jobs, err := selections(env("DEPENDENCY_JOBS_JSON"), c.namespace)
	if err != nil {
		return nil, fmt.Errorf("DEPENDENCY_JOBS_JSON: %w", err)
	}
	for _, s := range jobs {
		what := fmt.Sprintf("Jobs in %s with the labels %v", s.Namespace, s.Labels)
		all = append(all, need{what, func() error { return c.jobs(s.Namespace, s.Labels) }})
	}
	pods, err := selections(env("DEPENDENCY_POD_JSON"), c.namespace)
	if err != nil {
		return nil, fmt.Errorf("DEPENDENCY_POD_JSON: %w", err)
	}
	for _, s := range pods {
		what := fmt.Sprintf("a pod in %s with the labels %v", s.Namespace, s.Labels)
		all = append(all, need{what, func() error { return c.pods(s.Namespace, s.Labels, s.RequireSameNode) }})
	}
	for _, path := range words(env("DEPENDENCY_SOCKET")) {
		all = append(all, need{"socket " + path, func() error { return socket(path) }})
	}
	return all, nil
}

func connect() (*cluster, error) {
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return nil, err
	}
	namespace := os.Getenv("NAMESPACE")
	if namespace == "" {
		text, err := os.ReadFile(account + "namespace")
		if err != nil {
			return nil, err
		}
		namespace = strings.TrimSpace(string(text))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return &cluster{
		address:   "https://" + host,
		account:   account,
		namespace: namespace,
		pod:       os.Getenv("POD_NAME"),
		http:      &http.Client{Timeout: 20 * time.Second, Transport: transport},
	}, nil
}

// wait blocks until the object is available, and prints each new reason why it is not available.
func wait(n need) {
	for last := ""; ; time.Sleep(interval) {
		err := n.check()
		if err == nil {
			fmt.Println("available:", n.what)
			return
		}
		if reason := err.Error(); reason != last {
			fmt.Printf("waiting for %s: %s\n", n.what, reason)
			last = reason
		}
	}
}

// command runs the variable COMMAND. The image has no shell, so this program prints the text of an echo itself.
func command(text string) error {
	parts := strings.Fields(text)
	if len(parts) == 0 {
		return nil
	}
	if parts[0] == "echo" {
		fmt.Println(strings.Join(parts[1:], " "))
		return nil
	}
	process := exec.Command(parts[0], parts[1:]...)
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	return process.Run()
}

// pause waits for a signal to end. As PID 1, it also reaps processes whose parents have exited.
func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
}

func run() error {
	c, err := connect()
	if err != nil {
		return err
	}
	all, err := c.needs(os.Getenv)
	if err != nil {
		return err
	}
	for _, n := range all {
		wait(n)
	}
	return command(os.Getenv("COMMAND"))
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "pause" {
		pause()
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes-entrypoint:", err)
		os.Exit(1)
	}
}
