package main

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// demoHints is the value of --hint for commands that try the demo's models.
const demoHints = "demo"

func (p *program) hooks(c config.Config, hint string) appliance.Hooks {
	var welcome appliance.Welcome
	return appliance.Hooks{
		ListeningGRPC: func(address net.Addr) {
			fmt.Fprintf(p.out, "edgewise %s takes gRPC at %s\n", appliance.Version, address)
		},
		ListeningMetrics: func(address net.Addr) {
			fmt.Fprintf(p.out, "edgewise %s shows metrics at http://%s/metrics\n", appliance.Version, address)
		},
		Listening: func(address net.Addr) {
			fmt.Fprintf(p.out, "edgewise %s listens on %s://%s\n", appliance.Version, scheme(c, address), address)
		},
		Welcome: func(w appliance.Welcome) {
			welcome = w
			greet(p.out, w)
		},
		Ready: func() {
			fmt.Fprintln(p.out, "ready")
			if hint == demoHints {
				demoHint(p.out, welcome)
			}
		},
	}
}

// scheme is how an address is asked from this machine.
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

// demoHint prints commands to try and the answers to expect.
func demoHint(w io.Writer, welcome appliance.Welcome) {
	key := ""
	switch {
	case welcome.Key != "":
		key = "-H 'Authorization: Bearer " + welcome.Key + "' "
	case !welcome.Open:
		key = `-H "Authorization: Bearer $(cat data/demo/admin.token)" `
	}
	fmt.Fprint(w, strings.NewReplacer("KEY", key, "BOX", welcome.URLs[0]).Replace(`
Try, in another terminal:

  bin/edgewise demo ocr configs/demo/samples/text.png      reads five lines: HELLO EDGE 2026, Read on this box, not in a cloud. ...
  bin/edgewise demo vad configs/demo/samples/speech.wav    hears two sentences: 0.93 s .. 2.72 s and 3.91 s .. 5.28 s
  bin/edgewise demo face configs/demo/samples/face.jpg     finds one face, at 173,72

the same inside the box, where WebAssembly steps prepare the file and read the models' answers:

  curl KEY-H 'Content-Type: image/png' --data-binary @configs/demo/samples/text.png BOX/v2/models/text/infer
  curl KEY-H 'Content-Type: audio/wav' --data-binary @configs/demo/samples/speech.wav BOX/v2/models/speech/infer
  curl KEY-H 'Content-Type: image/jpeg' --data-binary @configs/demo/samples/face.jpg BOX/v2/models/faces/infer

and look around:

  bin/edgewise model list
  curl KEYBOX/v2/models/vad
  curl KEYBOX/metrics

Stop with Ctrl-C.
`))
}
