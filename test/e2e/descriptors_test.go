package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise/api/inference"
)

// lowerFiles sets the limit of open files of a running process.
func lowerFiles(t *testing.T, pid int, files uint64) {
	t.Helper()
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: 256}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestMoreConnectionsThanDescriptorsDoNotEndTheBox opens more connections at every port than the box may open files,
// first within the bound that it sets itself and then beyond what it can accept at all, and sees it serve again.
func TestMoreConnectionsThanDescriptorsDoNotEndTheBox(t *testing.T) {
	t.Parallel()
	b := serveWrapped(t, []string{"sh", "-c", `ulimit -n 256 && exec "$0" "$@"`}, t.TempDir(), "--set", "metrics.address=127.0.0.1:0")
	b.awaitReady()
	contains(t, "the log", b.output(), "128 are taken: half of the 256 files that the process may open (ulimit -n, LimitNOFILE=)")
	b.upload("sum", "", biased(1))

	for _, lowered := range []bool{false, true} {
		flood(t, b, lowered)
		if lowered {
			await(t, "a failed accept", func() bool { return strings.Contains(b.output(), "accepting a connection failed") })
			contains(t, "the log", b.output(), "files at once (ulimit -n, LimitNOFILE=)")
			lowerFiles(t, b.cmd.Process.Pid, 256)
		}
		await(t, "answers", func() bool { return b.answersEverywhere() })
	}
	b.stop()
}

// flood opens 300 connections at each port and closes them; lowered: while the box may open no file more.
func flood(t *testing.T, b *box, lowered bool) {
	t.Helper()
	if lowered {
		lowerFiles(t, b.cmd.Process.Pid, 10)
	}
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for _, address := range []string{b.address, b.grpc, b.metrics} {
		for range 300 {
			c, err := net.DialTimeout("tcp", address, patience)
			if err != nil {
				t.Fatalf("%v\n%s", err, b.output())
			}
			open = append(open, c)
		}
		if !lowered { // the last ones are told why
			_ = open[len(open)-1].SetReadDeadline(time.Now().Add(patience))
			_, _ = open[len(open)-1].Read(make([]byte, 1))
		}
	}
	select {
	case <-b.finished:
		t.Fatalf("the box has ended: %v\n%s", b.ended, b.output())
	default:
	}
}

// answersEverywhere tells whether the box answers an inference over REST and gRPC, and its metrics.
func (b *box) answersEverywhere() bool {
	select {
	case <-b.finished:
		b.t.Fatalf("the box has ended: %v\n%s", b.ended, b.output())
	default:
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for url, body := range map[string]string{b.url + "/v2/models/sum/infer": zeros, "http://" + b.metrics + "/metrics": ""} {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			b.t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil || res.Body.Close() != nil || res.StatusCode != http.StatusOK {
			return false
		}
	}
	connection, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	ready, err := inference.NewGRPCInferenceServiceClient(connection).ServerReady(ctx, &inference.ServerReadyRequest{})
	return err == nil && ready.GetReady()
}

// TestAChildThatLacksDescriptorsSaysSo loads a model while the box may open two more files.
func TestAChildThatLacksDescriptorsSaysSo(t *testing.T) {
	t.Parallel()
	b := serveWrapped(t, []string{"sh", "-c", `ulimit -n 256 && exec "$0" "$@"`}, t.TempDir())
	b.awaitReady()
	b.upload("sum", "", biased(1))
	if status, text := b.send(http.MethodPost, "/v2/repository/models/sum/unload", nil); status != http.StatusOK {
		t.Fatal(status, text)
	}
	await(t, "the end of the child", func() bool { return len(childrenOf(t, b.cmd.Process.Pid)) == 0 })
	lowerFiles(t, b.cmd.Process.Pid, limitWithFree(t, b.cmd.Process.Pid, 2))
	status, text := b.send(http.MethodPost, "/v2/repository/models/sum/load", nil)
	if status < 400 || !strings.Contains(text, "files at once (ulimit -n, LimitNOFILE=)") {
		t.Errorf("%d %s", status, text)
	}
	lowerFiles(t, b.cmd.Process.Pid, 256)
	if status, text := b.send(http.MethodPost, "/v2/repository/models/sum/load", nil); status != http.StatusOK {
		t.Fatal(status, text)
	}
	if status, text := b.send(http.MethodPost, "/v2/models/sum/infer", []byte(zeros)); status != http.StatusOK {
		t.Fatal(status, text)
	}
	b.stop()
}

// limitWithFree returns the limit of open files with which a process may open n more.
func limitWithFree(t *testing.T, pid, n int) uint64 {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]bool{}
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		used[number] = true
	}
	limit := 0
	for free := 0; free < n; limit++ {
		if !used[limit] {
			free++
		}
	}
	return uint64(limit)
}
