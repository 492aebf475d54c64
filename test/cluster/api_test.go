//go:build cluster

package cluster

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// condition is one of an object's.
type condition struct{ Type, Status, Reason string }

func holds(list []condition, kind string) bool {
	return slices.ContainsFunc(list, func(c condition) bool { return c.Type == kind && c.Status == "True" })
}

// pod is what the tests look at.
type pod struct {
	Metadata struct {
		Name, UID         string
		Annotations       map[string]string
		DeletionTimestamp *string
	}
	Status struct {
		Phase, PodIP      string
		Conditions        []condition
		ContainerStatuses []struct {
			Ready        bool
			Started      *bool
			ContainerID  string
			RestartCount int
		}
	}
}

func (p *pod) ready() bool {
	return p.Metadata.DeletionTimestamp == nil && holds(p.Status.Conditions, "Ready")
}

// restarts is how often the container of a pod was started again.
func (p *pod) restarts() (n int) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// ask sends a request to the API server, and returns the status and the body of its answer.
func (s server) ask(t *testing.T, method, path string, body any) (status int, text []byte) {
	t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.address+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := trusting.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, text
}

// trusting believes the certificate that the API server has made.
var trusting = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// get reads an object, and tells whether it is there.
func (s server) get(t *testing.T, path string, into any) bool {
	t.Helper()
	status, text := s.ask(t, http.MethodGet, path, nil)
	if status != http.StatusOK {
		return false
	}
	decode(t, text, into)
	return true
}

func (s server) create(t *testing.T, path string, o object) {
	t.Helper()
	if status, text := s.ask(t, http.MethodPost, path, o); status != http.StatusCreated {
		t.Fatalf("%s: %d %s", path, status, text)
	}
}

// pods lists the pods of a release, also those that are ending.
func (n *node) pods(t *testing.T, release string) (list []pod) {
	t.Helper()
	var found struct{ Items []pod }
	if !n.get(t, "/api/v1/namespaces/"+space+"/pods?labelSelector=app.kubernetes.io/instance="+release, &found) {
		t.Fatalf("the pods of %s cannot be listed", release)
	}
	return found.Items
}

// awaitPods waits until a release has so many pods, which are all ready and of one turn, and no other.
func (n *node) awaitPods(t *testing.T, release string, count int, turn string) (list []pod) {
	t.Helper()
	await(t, "pods of "+release+" that are ready", func() bool {
		list = n.pods(t, release)
		good := func(p pod) bool { return p.ready() && p.Metadata.Annotations["turn"] == turn }
		return len(list) == count && !slices.ContainsFunc(list, func(p pod) bool { return !good(p) })
	})
	return list
}

// events are the texts of the events of a release's pods.
func (n *node) events(t *testing.T, release string) string {
	t.Helper()
	var found struct {
		Items []struct {
			InvolvedObject  struct{ Name string }
			Reason, Message string
		}
	}
	if !n.get(t, "/api/v1/namespaces/"+space+"/events", &found) {
		t.Fatal("the events cannot be listed")
	}
	var all strings.Builder
	for _, e := range found.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, release) {
			all.WriteString(e.Reason + ": " + e.Message + "\n")
		}
	}
	return all.String()
}

// wantEvents claims that a release's pods have had events.
func (n *node) wantEvents(t *testing.T, release string, parts ...string) {
	t.Helper()
	said := n.events(t, release)
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("no %q in the events:\n%s", part, said)
		}
	}
}

// evict asks for the end of a pod as "kubectl drain" does, and returns the status of the answer.
func (n *node) evict(t *testing.T, name string) int {
	t.Helper()
	status, text := n.ask(t, http.MethodPost, "/api/v1/namespaces/"+space+"/pods/"+name+"/eviction", object{
		"apiVersion": "policy/v1", "kind": "Eviction", "metadata": object{"name": name, "namespace": space},
	})
	t.Logf("evict %s: %d %.200s", name, status, text)
	return status
}

// cordon says whether the node takes new pods.
func (n *node) cordon(t *testing.T, closed bool) {
	t.Helper()
	spec := object{"spec": object{"unschedulable": closed}}
	if status, text := n.ask(t, http.MethodPatch, "/api/v1/nodes/"+nodeName, spec); status != http.StatusOK {
		t.Fatalf("cordon: %d %s", status, text)
	}
}

// address returns the address that a release's Service has in the cluster.
func (n *node) addressOf(t *testing.T, release string) string {
	t.Helper()
	var found struct{ Spec struct{ ClusterIP string } }
	if !n.get(t, "/api/v1/namespaces/"+space+"/services/"+release+"-edgewise", &found) {
		t.Fatalf("no service of %s", release)
	}
	return found.Spec.ClusterIP
}

// await waits for a state.
func await(t *testing.T, what string, state func() bool) {
	t.Helper()
	for begun := time.Now(); !state(); time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// sorted sorts the lines of a text.
func sorted(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
