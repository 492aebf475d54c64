//go:build cluster

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testBox runs three replicas that read a repository.
func (n *node) testBox(t *testing.T) {
	values := []string{"replicas=3", "disruption.minAvailable=2", "models.persistentVolumeClaim.claimName=models"}
	n.install(t, "box", values...)
	pods := n.awaitPods(t, "box", 3, "t0")
	address := n.addressOf(t, "box")
	t.Run("is confined", func(t *testing.T) {
		for _, p := range pods {
			wantConfined(t, p)
		}
	})
	t.Run("answers over REST and gRPC", func(t *testing.T) {
		ready := func() bool { _, err := restClient(address, host, true)(t.Context(), 1); return err == nil }
		await(t, "the service", ready) // the node has heard of the pods
		l := startLoad(t, address)
		await(t, "requests of all clients", func() bool {
			for _, c := range l.clients {
				if c.sent.Load() == 0 {
					return false
				}
			}
			return true
		})
		l.end()
		l.wantNoneLost(t)
	})
	t.Run("ends again and again", func(t *testing.T) { n.testEnds(t, pods[2]) })
	t.Run("is drained", func(t *testing.T) { n.testDrain(t, address) })
	t.Run("rolls", func(t *testing.T) { n.testRollouts(t, address, values) })
}

// testEnds ends a box three times, each time as soon as it answers: it comes back with its models, later each time. The others have
// its requests meanwhile.
func (n *node) testEnds(t *testing.T, p pod) {
	find := func() pod {
		for _, found := range n.pods(t, "box") {
			if found.Metadata.Name == p.Metadata.Name {
				return found
			}
		}
		t.Fatalf("there is no %s any more", p.Metadata.Name)
		return pod{}
	}
	for want := 1; want <= 3; want++ {
		signalBox(t, find(), syscall.SIGKILL)
		await(t, "the box to be started again, and to be ready", func() bool {
			p = find()
			return p.restarts() == want && p.ready()
		})
		if y, err := restClient(p.Status.PodIP, "", true)(t.Context(), 1); err != nil || y != 1+bias {
			t.Fatalf("after end %d: %v, %v", want, y, err)
		}
	}
}

// testRollouts replaces all replicas under load, again and again.
func (n *node) testRollouts(t *testing.T, address string, values []string) {
	l := startLoad(t, address)
	for turn := 1; turn <= *rollouts && !t.Failed(); turn++ {
		begun := time.Now()
		restBefore, rpcBefore, lostBefore := l.counts()
		n.install(t, "box", append(values, fmt.Sprint("podAnnotations.turn=t", turn))...)
		n.awaitPods(t, "box", 3, fmt.Sprint("t", turn))
		rest, rpc, lost := l.counts()
		t.Logf("rolling update %d: %d requests over REST, %d over gRPC, %d failed, %v", turn, rest-restBefore, rpc-rpcBefore,
			lost-lostBefore, time.Since(begun).Round(time.Second))
	}
	l.end()
	rest, rpc, lost := l.counts()
	t.Logf("%d rolling updates of three replicas: %d requests over REST, %d over gRPC, %d failed", *rollouts, rest, rpc, lost)
	l.wantNoneLost(t)
}

// testDrain empties the node as "kubectl drain" does, under load: what would leave fewer than two replicas has to wait.
func (n *node) testDrain(t *testing.T, address string) {
	l := startLoad(t, address)
	pods := n.pods(t, "box")
	n.cordon(t, true)
	if status := n.evict(t, pods[0].Metadata.Name); status != http.StatusCreated {
		t.Errorf("the first of three: %d", status)
	}
	if status := n.evict(t, pods[1].Metadata.Name); status != http.StatusTooManyRequests {
		t.Errorf("the second, of which two have to be there: %d", status)
	}
	n.cordon(t, false)
	n.awaitPods(t, "box", 3, "t0")
	await(t, "the second to be let go", func() bool { return n.evict(t, pods[1].Metadata.Name) == http.StatusCreated })
	n.awaitPods(t, "box", 3, "t0")
	l.end()
	l.wantNoneLost(t)
}

// testStartup runs a box that nobody can reach: its startup probe starts it again.
func (n *node) testStartup(t *testing.T) {
	n.install(t, "lost", "config.http.address=:9999", "startSeconds=10", "drainSeconds=1", "stopSeconds=1")
	await(t, "a box that does not start to be started again", func() bool {
		pods := n.pods(t, "lost")
		return len(pods) == 1 && pods[0].restarts() > 0
	})
	n.wantEvents(t, "lost", "Startup probe failed", "failed startup probe, will be restarted")
	if said, err := n.helm(t, "uninstall", "lost", "--namespace", space, "--wait"); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// testKept runs a box with a volume of its own, ends it in three ways, and looks for what was uploaded.
func (n *node) testKept(t *testing.T) {
	values := []string{
		"persistence.enabled=true", "persistence.storageClass=local", "persistence.size=1Gi", "drainSeconds=1", "stopSeconds=5",
	}
	n.install(t, "kept", values...)
	p := n.awaitPods(t, "kept", 1, "t0")[0]
	upload(t, p)
	wantKept(t, p)
	for _, f := range []struct {
		name string
		end  func(t *testing.T, p pod)
		want []string // in the events
	}{
		{"killed", func(t *testing.T, p pod) { signalBox(t, p, syscall.SIGKILL) }, nil},
		{"hung", func(t *testing.T, p pod) { signalBox(t, p, syscall.SIGSTOP) }, []string{
			"Readiness probe failed", "Liveness probe failed", "failed liveness probe, will be restarted",
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			before := n.pods(t, "kept")[0].restarts()
			n.awaitSteady(t)
			f.end(t, p)
			await(t, "the box to be started again", func() bool { return n.pods(t, "kept")[0].restarts() > before })
			p = n.awaitPods(t, "kept", 1, "t0")[0]
			wantKept(t, p)
			n.wantEvents(t, "kept", f.want...)
		})
	}
	t.Run("replaced", func(t *testing.T) {
		n.install(t, "kept", append(values, "podAnnotations.turn=t1")...)
		p := n.awaitPods(t, "kept", 1, "t1")[0]
		wantConfined(t, p)
		wantKept(t, p)
	})
}

// awaitSteady waits until the start of the box has gone well: two that have not would make the next one a safe start, without models.
func (n *node) awaitSteady(t *testing.T) {
	t.Helper()
	await(t, "a start that has gone well", func() bool {
		_, err := os.Stat(filepath.Join(n.volume("data"), "starts.json"))
		return errors.Is(err, fs.ErrNotExist)
	})
}

func upload(t *testing.T, p pod) {
	t.Helper()
	response, err := http.Post("http://"+p.Status.PodIP+":8000/api/v1/models/bias/versions", "application/octet-stream",
		bytes.NewReader(biased().Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusCreated {
		t.Fatalf("upload: %d %s", response.StatusCode, text)
	}
}

// wantKept claims that a pod answers with the uploaded model.
func wantKept(t *testing.T, p pod) {
	t.Helper()
	if y, err := restClient(p.Status.PodIP, "", true)(t.Context(), 1); err != nil || y != 1+bias {
		t.Errorf("the uploaded model: %v, %v", y, err)
	}
}

// processes are those of a pod's container: a box, and what it has started.
func processes(t *testing.T, p pod) (list []int) {
	t.Helper()
	if len(p.Status.ContainerStatuses) != 1 {
		t.Fatalf("%d containers", len(p.Status.ContainerStatuses))
	}
	container := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	found, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range found {
		group, err := os.ReadFile(process + "/cgroup")
		if err != nil || !bytes.Contains(group, []byte(container)) {
			continue
		}
		number, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, number)
	}
	if len(list) == 0 {
		t.Fatalf("no process of %s", p.Metadata.Name)
	}
	return list
}

// signalBox sends a signal to the box of a pod: the first process of its container.
func signalBox(t *testing.T, p pod, signal syscall.Signal) {
	t.Helper()
	for _, number := range processes(t, p) {
		if fields := status(t, number); strings.HasSuffix(fields["NSpid"], "\t1") {
			if err := syscall.Kill(number, signal); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("no first process")
}

// status is what the kernel says of a process.
func status(t *testing.T, number int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", number))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	return fields
}

// wantConfined claims that all processes of a box are nobody's, with no capability, below a root that cannot be written to.
func wantConfined(t *testing.T, p pod) {
	t.Helper()
	const nobody, none = "65532\t65532\t65532\t65532", "0000000000000000"
	for _, number := range processes(t, p) {
		fields := status(t, number)
		for field, want := range map[string]string{
			"Uid": nobody, "Gid": nobody, "CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
			"NoNewPrivs": "1", "Seccomp": "2",
		} {
			if fields[field] != want {
				t.Errorf("%s, process %d: %s is %q, want %q", p.Metadata.Name, number, field, fields[field], want)
			}
		}
		for _, place := range []string{"/x", "/usr/x", "/etc/x", "/mnt/models/x"} {
			err := os.WriteFile(fmt.Sprintf("/proc/%d/root%s", number, place), nil, 0o600)
			if !errors.Is(err, syscall.EROFS) {
				t.Errorf("%s, process %d: writing %s as root: %v", p.Metadata.Name, number, place, err)
			}
		}
	}
}
