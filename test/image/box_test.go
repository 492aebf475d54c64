package image

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"time"
)

const password = "a pass phrase of a test"

// box is the appliance in the machine, as a browser sees it.
type box struct {
	base   string
	client *http.Client
	csrf   string
}

func newBox(port int) (*box, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the fingerprint is compared on the console
	return &box{fmt.Sprintf("https://127.0.0.1:%d", port), &http.Client{Transport: transport, Timeout: 10 * time.Minute, Jar: jar}, ""}, nil
}

// forget ends the session on this side.
func (b *box) forget() {
	b.csrf = ""
	b.client.Jar, _ = cookiejar.New(nil)
	b.client.CloseIdleConnections()
}

// answers waits for the page.
func (b *box) answers(within time.Duration) (took time.Duration, err error) {
	begun := time.Now()
	err = await(within, "the page answers", func() (bool, error) {
		err := b.want(http.MethodGet, "/", "", nil, nil)
		return err == nil, err
	})
	return time.Since(begun), err
}

func (b *box) do(method, path, kind string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, b.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "text/html,application/json")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if b.csrf != "" {
		req.Header.Set("X-CSRF-Token", b.csrf)
	}
	res, err := b.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// want does and reads a JSON answer into to.
func (b *box) want(method, path, kind string, body []byte, to any) error {
	status, answer, err := b.do(method, path, kind, body)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, status, answer)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(answer, to)
}

// enter claims the box, or logs in to a claimed one.
func (b *box) enter(path string, words map[string]string) error {
	body, err := json.Marshal(words)
	if err != nil {
		return err
	}
	var login struct{ CSRF string }
	err = b.want(http.MethodPost, path, "application/json", body, &login)
	b.csrf = login.CSRF
	return err
}

// push uploads a model file, makes it live and waits until it is ready.
func (b *box) push(model, file string, patience time.Duration) error {
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	path := "/api/v1/models/" + model
	return inOrder(
		func() error { return b.want(http.MethodPost, path+"/versions", "application/octet-stream", body, nil) },
		func() error {
			return b.want(http.MethodPut, path+"/labels/live", "application/json", []byte(`{"version":1}`), nil)
		},
		func() error { return b.ready(model, patience) },
	)
}

// ready waits until a model is ready.
func (b *box) ready(model string, within time.Duration) error {
	return await(within, "model "+model+" is ready", func() (bool, error) {
		err := b.want(http.MethodGet, "/v2/models/"+model+"/ready", "", nil, nil)
		return err == nil, err
	})
}

// voice checks the digest of what the demo's pipeline hears.
func (b *box) voice(model string) error {
	sound, err := os.ReadFile("configs/demo/samples/speech.wav")
	if err != nil {
		return err
	}
	status, answer, err := b.do(http.MethodPost, "/v2/models/"+model+"/infer", "audio/wav", sound)
	if err != nil {
		return err
	}
	if status != http.StatusOK || !bytes.Contains(answer, []byte("[0.93,3.906]")) || !bytes.Contains(answer, []byte("[2.718,5.278]")) {
		return fmt.Errorf("%s answers %d %.300s", model, status, answer)
	}
	return nil
}

// holds compares what the box has of a model's first version with a file.
func (b *box) holds(model, file string) error {
	want, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	status, got, err := b.do(http.MethodGet, "/api/v1/models/"+model+"/versions/1/file?path=model.onnx", "", nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK || !bytes.Equal(got, want) {
		return fmt.Errorf("model %s: %d, %d bytes, not the %d that were uploaded", model, status, len(got), len(want))
	}
	return nil
}
