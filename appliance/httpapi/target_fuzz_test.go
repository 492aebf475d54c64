package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/edgewise-ai/edgewise"
)

// bitKeys knows a key for every set of rights: its secret is their number. Only keys with confirmedBit are confirmed.
type bitKeys struct{ Accounts }

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
	s, err := New(Config{HeaderTimeout: time.Minute}, Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	s.deps.Accounts = bitKeys{}
	whole := wholeTable(f)
	s.table = whole.table
	page, none := *s.router.page, *s.router.none
	page.method, page.path = "*", "page"
	none.method, none.path = "*", "none"
	for _, r := range append([]*route{&page, &none}, s.table...) {
		r.complete(s.cfg)
		r.action = ""
		r.handler = func(c *fiber.Ctx) error {
			c.Set("X-Ran", r.method+" "+r.path)
			c.Set("X-Path", string(c.Context().URI().PathOriginal()))
			return nil
		}
	}
	s.router = &router{roots: whole.router.roots, page: &page, none: &none}
	ln := fasthttputil.NewInmemoryListener()
	go func() { _ = s.Serve(ln) }()
	f.Cleanup(func() { _ = s.Shutdown(f.Context()) })
	return ln
}

// fits tells whether a route may answer a request, by the plainest reading of both.
func (r *route) fits(method, path string) bool {
	want, got := strings.Split(r.path, "/"), strings.Split(path, "/")
	if len(want) != len(got) || r.method != method && (r.method != "GET" || method != "HEAD") {
		return false
	}
	for i := range want {
		if strings.HasPrefix(want[i], ":") && got[i] != "" {
			continue
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
	table := wholeTable(f).table
	for i, r := range table {
		for _, form := range []string{
			"%s", "%s#", "%s#/register", "%s/", "%s?x=y", "%s%%23", "%s%%2F", "%s;x", "/.%s",
			"/x/..%s", "/%s", "%s\x00", "%s ", "http://h%s", "%s//",
		} {
			f.Add(uint8(i), uint8(i*7), fmt.Sprintf(form, r.path), "localhost")
		}
		f.Add(uint8(2), uint8(1), r.path, "[::1")
		f.Add(uint8(0), uint8(15), strings.ToUpper(r.path), "localhost:8000")
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
			if r.method+" "+r.path != ran {
				continue
			}
			rights := edgewise.Rights(key) & edgewise.AllRights
			if !r.fits(name, path) || !r.public && r.rights != 0 && r.rights&rights == 0 || r.confirm && key&confirmedBit == 0 {
				t.Fatalf("%s %q with the key %d ran %s, which needs %s, confirmed %v", name, target, key, ran, r.rights.Names(),
					r.confirm)
			}
			return
		}
		if ran == "* none" && edgewise.Rights(key)&edgewise.Admin == 0 {
			t.Fatalf("%s %q with the key %d ran %s", name, target, key, ran)
		}
		for _, r := range table {
			if r.fits(name, path) {
				t.Fatalf("%s %q ran %s instead of %s", name, target, ran, r.path)
			}
		}
	})
}
