package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/processes"
)

// boxConfig says what is started.
type boxConfig struct {
	Program string
	Library string   // ONNX Runtime, its providers beside it
	Driver  string   // of CUDA; empty: searched
	Folders []string // with NVIDIA's libraries
	Models  string   // a model repository, which is imported
	Data    string   // an empty folder
	Ready   []string // the models that have to be ready
	More    []string // settings, as key=value
	Log     io.Writer
}

// box is the built program with models on a GPU, as a client and an operator meet it.
type box struct {
	URL  string
	Took time.Duration // from its start until the models were ready
	cmd  *exec.Cmd
	http http.Client
	gone chan struct{} // closed when it has ended
	end  error
}

// readyTimeout bounds the start: the first use of a GPU reads large libraries.
const readyTimeout = 3 * time.Minute

// startBox starts a server and waits until its models are ready. It gets a process group of its own, as in a terminal.
func startBox(ctx context.Context, c boxConfig) (*box, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	b := &box{URL: "http://" + address, gone: make(chan struct{}), http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}}
	arguments := []string{"serve", "--auth", "open", "--import", c.Models}
	for _, setting := range append([]string{
		"data_dir=" + c.Data, "http.address=" + address, "grpc.address=", "metrics.address=", "onnx.library=" + c.Library,
		"store.reserve_bytes=0",
		"gpu.driver=" + c.Driver, "gpu.libraries=" + strings.Join(c.Folders, ","),
	}, c.More...) {
		arguments = append(arguments, "--set", setting)
	}
	b.cmd = exec.CommandContext(ctx, c.Program, arguments...)
	b.cmd.Stdout, b.cmd.Stderr = c.Log, c.Log
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		b.end = b.cmd.Wait()
		close(b.gone)
	}()
	for _, model := range c.Ready {
		if err := b.awaitReady(model, began.Add(readyTimeout)); err != nil {
			return nil, errors.Join(err, b.cmd.Process.Kill())
		}
	}
	b.Took = time.Since(began)
	return b, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (b *box) awaitReady(model string, until time.Time) error {
	for time.Now().Before(until) {
		if status, _, err := b.get("/v2/models/" + model + "/ready"); err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-b.gone:
			return fmt.Errorf("the server has ended: %w", b.end)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("model %s did not become ready", model)
}

func (b *box) get(path string) (status int, text string, err error) {
	answer, err := b.http.Get(b.URL + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// query is an inference request, encoded once and sent often.
type query struct {
	path, header string
	body         []byte
}

// newQuery makes a question to a model, with the tensors as bytes in both directions.
func newQuery(model string, in ...edgewise.Tensor) (query, error) {
	body, jsonSize, err := kserve.AppendInferRequest(nil, &edgewise.Request{Inputs: in}, kserve.Binary, kserve.Binary)
	return query{"/v2/models/" + model + "/infer", strconv.Itoa(jsonSize), body}, err
}

// refused is an answer that is none.
type refused struct {
	Status int
	Text   string
}

// Error returns status and text.
func (r *refused) Error() string { return fmt.Sprintf("%d: %s", r.Status, r.Text) }

// infer sends a question and reads the whole answer. Error: *refused, or that of the connection.
func (b *box) infer(q query) error {
	_, err := b.send(q.path, q.body, map[string]string{kserve.HeaderLength: q.header, "Content-Type": "application/octet-stream"})
	return err
}

func (b *box) send(path string, body []byte, headers map[string]string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodPost, b.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := b.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		return nil, &refused{answer.StatusCode, string(text)}
	}
	return text, err
}

// load lets clients ask for a time, each its next question when it has its answer, and returns how many answers there
// were.
func (b *box) load(clients int, each time.Duration, q query) (answers int, took time.Duration, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	began := time.Now()
	for range clients {
		group.Go(func() {
			n := 0
			var failed error
			for first := true; failed == nil && (first || time.Since(began) < each); first = false {
				if failed = b.infer(q); failed == nil {
					n++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			answers += n
			errs = append(errs, failed)
		})
	}
	group.Wait()
	return answers, time.Since(began), errors.Join(errs...)
}

// children lists the processes of models.
func (b *box) children() ([]int, error) { return processes.Children(b.cmd.Process.Pid) }

// awaitBack waits until a question is answered again and returns how long that took since began. Refusals in between are
// noted by each.
func (b *box) awaitBack(q query, began time.Time, most time.Duration, each func(error)) (time.Duration, error) {
	for {
		err := b.infer(q)
		if err == nil {
			return time.Since(began), nil
		}
		each(err)
		if time.Since(began) > most {
			return 0, fmt.Errorf("the model did not come back within %v: %w", most, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stop sends the server and its children a signal, as a terminal does, and returns how long the end took. Error: it did
// not end by itself, or not with 0.
func (b *box) stop(signal syscall.Signal) (time.Duration, error) {
	began := time.Now()
	if err := syscall.Kill(-b.cmd.Process.Pid, signal); err != nil {
		return 0, err
	}
	select {
	case <-b.gone:
		return time.Since(began), b.end
	case <-time.After(time.Minute):
		return 0, errors.Join(errors.New("the server did not end within a minute"), b.cmd.Process.Kill())
	}
}

// kill ends the server at once, if it has not ended.
func (b *box) kill() { _ = b.cmd.Process.Kill() }
