package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// bitKeys knows a key for every set of rights: its secret is their number. Only keys with confirmedBit are confirmed.
type bitKeys struct{ httpapi.Accounts }

const confirmedBit = 1 << 7

func (bitKeys) Bearer(secret string, _ bool) (*edgewise.Principal, func(), error) {
	n, err := strconv.ParseUint(secret, 10, 8)
	if err != nil {
		return nil, nil, edgewise.Errorf("fake", edgewise.Unauthenticated, "this key is not known")
	}
	return &edgewise.Principal{Kind: "person", Name: secret, Rights: edgewise.Rights(n) & edgewise.AllRights}, nil, nil
}

func (bitKeys) Claimed() bool { return true }

func (bitKeys) Confirmed(p *edgewise.Principal) error {
	if n, _ := strconv.ParseUint(p.Name, 10, 8); n&confirmedBit == 0 {
		return edgewise.Errorf("fake", edgewise.Denied, "not confirmed")
	}
	return nil
}

// recorder is a server with every route, whose handlers only say which route they are of.
func recorder(f *testing.F) *fasthttputil.InmemoryListener {
	f.Helper()
	s := wholeTable(f, httpapi.Config{HeaderTimeout: time.Minute}, bitKeys{})
	s.HandleAll(func(route httpapi.Route) httpapi.Handler {
		return func(r *httpapi.Request) error {
			r.Set("X-Ran", route.Method+" "+route.Path)
			r.Set("X-Path", string(r.Context().URI().PathOriginal()))
			return nil
		}
	})
	ln := fasthttputil.NewInmemoryListener()
	go func() { _ = s.Serve(ln) }()
	f.Cleanup(func() { _ = s.Shutdown(f.Context()) })
	return ln
}

// fits tells whether a route may answer a request, by the plainest reading of both.
func fits(r httpapi.Route, method, path string) bool {
	want, got := strings.Split(r.Path, "/"), strings.Split(path, "/")
	if len(want) != len(got) || r.Method != method && (r.Method != "GET" || method != "HEAD") {
		return false
	}
	for i := range want {
		if name, ok := strings.CutPrefix(want[i], ":"); ok {
			_, verb, _ := strings.Cut(name, ":")
			if verb != "" {
				verb = ":" + verb
			}
			if value, ok := strings.CutSuffix(got[i], verb); ok && value != "" {
				continue
			}
		}
		if want[i] != got[i] {
			return false
		}
	}
	return true
}

// FuzzTarget holds what ran against what authorization had to see: the route of the target as it was sent, and a caller
// with its right. A target or a host that can be read in two ways runs nothing.
func FuzzTarget(f *testing.F) {
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "CONNECT", "TRACE", "X"}
	table := wholeTable(f, httpapi.Config{}, nil).Routes()
	for i, r := range table {
		for _, form := range []string{
			"%s", "%s#", "%s#/register", "%s/", "%s?x=y", "%s%%23", "%s%%2F", "%s;x", "/.%s",
			"/x/..%s", "/%s", "%s\x00", "%s ", "http://h%s", "%s//",
		} {
			f.Add(uint8(i), uint8(i*7), fmt.Sprintf(form, r.Path), "localhost")
		}
		f.Add(uint8(2), uint8(1), r.Path, "[::1")
		f.Add(uint8(0), uint8(15), strings.ToUpper(r.Path), "localhost:8000")
	}
	f.Add(uint8(0), uint8(15), "/", "loCAlhost  ")
	f.Add(uint8(0), uint8(1), "/"+strings.Repeat("a/", 4000), "[::1]:80")
	ln := recorder(f)
	f.Fuzz(func(t *testing.T, method, key uint8, target, host string) {
		if strings.ContainsAny(target+host, "\r\n") || len(target)+len(host) > 12<<10 {
			return // other requests, and other limits
		}
		c, err := ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		name := methods[int(method)%len(methods)]
		go func() {
			_, _ = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %d\r\nConnection: close\r\n\r\n", name,
				target, host, key)
		}()
		br := bufio.NewReader(c)
		res, err := http.ReadResponse(br, &http.Request{Method: name})
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		// the method of what cannot be read is not known
		if n, _ := io.Copy(io.Discard, br); n > 0 && (name != "HEAD" || res.StatusCode != 400) {
			t.Fatalf("%d bytes after the answer", n)
		}
		ran := res.Header.Get("X-Ran")
		if ran == "" {
			return
		}
		path, _, _ := strings.Cut(target, "?")
		host = strings.Trim(host, " \t") // as around any value of a header
		if strings.ContainsAny(target, "# \x00\\") || strings.ContainsAny(host, "#/\\@ ") ||
			strings.Contains(host, "[") != strings.Contains(host, "]") {
			t.Fatalf("target %q with host %q ran %s", target, host, ran)
		}
		if seen := res.Header.Get("X-Path"); seen != path {
			t.Fatalf("the path of target %q is %q for its handler %s", target, seen, ran)
		}
		for _, r := range table {
			if r.Method+" "+r.Path != ran {
				continue
			}
			rights := edgewise.Rights(key) & edgewise.AllRights
			if !fits(r, name, path) || !r.Public && r.Rights != 0 && r.Rights&rights == 0 || r.Confirm && key&confirmedBit == 0 {
				t.Fatalf("%s %q with the key %d ran %s, which needs %s, confirmed %v", name, target, key, ran, r.Rights.Names(),
					r.Confirm)
			}
			return
		}
		if ran == "* none" && edgewise.Rights(key)&edgewise.Admin == 0 {
			t.Fatalf("%s %q with the key %d ran %s", name, target, key, ran)
		}
		for _, r := range table {
			if fits(r, name, path) {
				t.Fatalf("%s %q ran %s instead of %s", name, target, ran, r.Path)
			}
		}
	})
}
