package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/access"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// demoHints is the value of --hint for commands that try the demo's models.
const demoHints = "demo"

func (p *program) hooks(c config.Config, hint string) appliance.Hooks {
	var welcome appliance.Welcome
	var server string
	return appliance.Hooks{
		ListeningGRPC: func(address net.Addr) {
			fmt.Fprintf(p.Out, "edgewise %s serves gRPC at %s\n", appliance.Version, address)
		},
		ListeningMetrics: func(address net.Addr) {
			fmt.Fprintf(p.Out, "edgewise %s serves metrics at http://%s/metrics\n", appliance.Version, address)
		},
		Listening: func(address net.Addr) {
			fmt.Fprintf(p.Out, "edgewise %s listens on %s://%s\n", appliance.Version, scheme(c, address), address)
			server = local(c, address)
		},
		Welcome: func(w appliance.Welcome) {
			welcome = w
			greet(p.Out, w)
		},
		Ready: func() {
			fmt.Fprintln(p.Out, "ready")
			if hint == demoHints {
				demoHint(p.Out, welcome, server, filepath.Join(c.DataDir, access.TokenFile))
			}
		},
	}
}

// local is the base URL of a box that listens at an address, for commands on this machine.
func local(c config.Config, address net.Addr) string {
	host, port, _ := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
		return scheme(c, address) + "://127.0.0.1:" + port
	}
	return scheme(c, address) + "://" + address.String()
}

// scheme returns the scheme of URLs of an address for clients on this machine.
func scheme(c config.Config, address net.Addr) string {
	host, _, _ := net.SplitHostPort(address.String())
	ip := net.ParseIP(host)
	local := ip != nil && ip.IsLoopback()
	if c.TLS.Mode == config.TLSOff || c.TLS.Mode == config.TLSAuto && local {
		return "http"
	}
	return "https"
}

// greet tells a person at the console how to begin.
func greet(w io.Writer, welcome appliance.Welcome) {
	page := welcome.URLs[0]
	switch {
	case welcome.Open:
		fmt.Fprintf(w, "\n  Page:  %s\n  Accounts are off (auth: open): whoever reaches this address may do everything.\n\n", page)
		return
	case welcome.ClaimCode != "":
		fmt.Fprintf(w, "\n  Open the page and claim this box:  %s\n  Claim code:                        %s\n", page, welcome.ClaimCode)
	default:
		fmt.Fprintf(w, "\n  Page:  %s\n", page)
	}
	if strings.HasPrefix(page, "https:") {
		fmt.Fprintf(w, "  The browser warns about the certificate once. Its SHA-256 fingerprint is\n  %s\n", welcome.Fingerprint)
	}
	if welcome.Key != "" {
		fmt.Fprintf(w, "  API key for the demo, shown this once:\n  %s\n", welcome.Key)
	}
	fmt.Fprintln(w)
}

// demoHint prints commands to try and the answers to expect. The commands find the box at server, and the token of its
// machine in the file token.
func demoHint(w io.Writer, welcome appliance.Welcome, server, token string) {
	key, flag := "", ""
	if server != cli.DefaultServer {
		flag = "--server " + server + " "
	}
	switch {
	case welcome.Key != "":
		key = "-H 'Authorization: Bearer " + welcome.Key + "' "
	case !welcome.Open:
		key = `-H "Authorization: Bearer $(cat ` + token + `)" `
	}
	fmt.Fprint(w, strings.NewReplacer("KEY", key, "BOX", welcome.URLs[0], "FLAG", flag).Replace(`
Try, in another terminal:

  bin/edgewise FLAGdemo ocr configs/demo/samples/text.png      reads five lines: HELLO EDGE 2026, Read on this box, not in a cloud. ...
  bin/edgewise FLAGdemo vad configs/demo/samples/speech.wav    hears two sentences: 0.93 s .. 2.72 s and 3.91 s .. 5.28 s
  bin/edgewise FLAGdemo face configs/demo/samples/face.jpg     finds one face, at 172,73

the same requests without the program; in the box WebAssembly steps prepare the file and read the models' answers:

  curl KEY-H 'Content-Type: image/png' --data-binary @configs/demo/samples/text.png BOX/v2/models/text/infer
  curl KEY-H 'Content-Type: audio/wav' --data-binary @configs/demo/samples/speech.wav BOX/v2/models/speech/infer
  curl KEY-H 'Content-Type: image/jpeg' --data-binary @configs/demo/samples/face.jpg BOX/v2/models/faces/infer

and look around:

  bin/edgewise FLAGmodel list
  curl KEYBOX/v2/models/vad
  curl KEYBOX/metrics

Stop with Ctrl-C.
`))
}
