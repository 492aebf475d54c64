package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// served starts the program with a model on the GPU, measures it as a client, kills the model's process, and stops it.
func (r *report) served(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "gputest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := repository(dir); err != nil {
		return err
	}
	b, err := start(ctx, s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop(r)) }()
	r.add(line{Name: "server: from start to ready", Value: b.took.Seconds(), Unit: "s"})
	body := request(8)
	for _, clients := range []int{1, 16} {
		n, took, err := b.load(clients, s.each, body)
		if err != nil {
			return err
		}
		r.add(line{Name: fmt.Sprintf("server: mlp, %d clients, rows of 8", clients), Value: float64(8*n) / took.Seconds(), Unit: "rows/s"})
	}
	return b.killChild(r, body)
}

// repository writes a model that must run on a GPU.
func repository(dir string) error {
	model := filepath.Join(dir, "models", "mlp")
	if err := os.MkdirAll(filepath.Join(model, "1"), 0o755); err != nil {
		return err
	}
	config := "max_batch_size: 64\ndynamic_batching {}\ninstance_group { kind: KIND_GPU count: 1 }\n"
	if err := os.WriteFile(filepath.Join(model, "config.pbtxt"), []byte(config), 0o600); err != nil {
		return err
	}
	return onnxgen.MLP(1).Save(filepath.Join(model, "1"))
}

// box is a server that runs.
type box struct {
	cmd  *exec.Cmd
	url  string
	took time.Duration
}

// readyTimeout bounds the start: the first use of a GPU reads large libraries.
const readyTimeout = 3 * time.Minute

func start(ctx context.Context, s settings, dir string) (*box, error) {
	port := "18471"
	b := &box{url: "http://127.0.0.1:" + port}
	arguments := []string{"serve", "--import", filepath.Join(dir, "models")}
	for _, setting := range []string{
		"data_dir=" + filepath.Join(dir, "data"), "http.address=127.0.0.1:" + port, "grpc.address=", "onnx.library=" + s.library, "store.reserve_bytes=0",
		"gpu.driver=" + s.driver, "gpu.libraries=" + strings.Join(s.folders, ","),
	} {
		arguments = append(arguments, "--set", setting)
	}
	b.cmd = exec.CommandContext(ctx, s.server, arguments...)
	b.cmd.Stdout, b.cmd.Stderr = os.Stderr, os.Stderr
	began := time.Now()
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	for time.Since(began) < readyTimeout {
		if answer, err := http.Get(b.url + "/v2/models/mlp/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				b.took = time.Since(began)
				return b, nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, errors.Join(errors.New("the server's model did not become ready"), b.cmd.Process.Kill())
}

func request(rows int) []byte {
	m := onnxgen.MLP(1)
	body, _ := json.Marshal(map[string]any{"inputs": []any{map[string]any{ // plain numbers always encode
		"name": m.Graph.Inputs[0].Name, "datatype": "FP32", "shape": []int{rows, 64}, "data": make([]float32, rows*64),
	}}})
	return body
}

func (b *box) infer(body []byte) error {
	answer, err := http.Post(b.url+"/v2/models/mlp/infer", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}

// load lets clients ask for a time and returns how many answers there were.
func (b *box) load(clients int, each time.Duration, body []byte) (int, time.Duration, error) {
	type result struct {
		n   int
		err error
	}
	results := make(chan result)
	began := time.Now()
	for range clients {
		go func() {
			n, _, err := repeat(each, func() error { return b.infer(body) })
			results <- result{n, err}
		}()
	}
	total, errs := 0, []error(nil)
	for range clients {
		one := <-results
		total += one.n
		errs = append(errs, one.err)
	}
	return total, time.Since(began), errors.Join(errs...)
}

// back is how soon a model whose process was killed has to answer again.
const back = 5 * time.Second

// killChild kills the model's process and waits until the model answers again.
func (b *box) killChild(r *report, body []byte) error {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", b.cmd.Process.Pid, b.cmd.Process.Pid))
	if err != nil {
		return err
	}
	pids := strings.Fields(string(children))
	if len(pids) == 0 {
		if pids, err = childrenOf(b.cmd.Process.Pid); err != nil {
			return err
		}
	}
	if len(pids) == 0 {
		return errors.New("the server has no process for its model")
	}
	pid, err := strconv.Atoi(pids[0])
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	began := time.Now()
	for b.infer(body) != nil {
		if time.Since(began) > 10*back {
			return errors.New("the model did not come back")
		}
		time.Sleep(20 * time.Millisecond)
	}
	l := line{Name: "server: from kill -9 of the model to its answer", Value: time.Since(began).Seconds(), Unit: "s"}
	if time.Since(began) > back {
		l.Failed = "later than " + back.String()
	}
	r.add(l)
	return nil
}

// childrenOf lists the children of every thread of a process.
func childrenOf(pid int) ([]string, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, path := range threads {
		if content, err := os.ReadFile(path); err == nil {
			all = append(all, strings.Fields(string(content))...)
		}
	}
	return all, nil
}

// stop ends the server as an operator does and looks at its exit code.
func (b *box) stop(r *report) error {
	began := time.Now()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := b.cmd.Wait(); err != nil {
		return fmt.Errorf("the server did not stop cleanly: %w", err)
	}
	r.add(line{Name: "server: from SIGTERM to its end", Value: time.Since(began).Seconds(), Unit: "s"})
	return nil
}
