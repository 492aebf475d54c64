package appliance

import (
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/safestart"
)

// TestNoMistakeOfTheConfigurationLeadsToASafeStart starts a box at a port that is taken, and with a certificate that is
// not there.
func TestNoMistakeOfTheConfigurationLeadsToASafeStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	c := testConfig(t)
	for range safestart.MaxCrashes {
		wrong := c
		wrong.HTTP.Address = taken.Addr().String()
		a, _ := newApp(t, wrong)
		if err := a.Run(t.Context(), nil, Hooks{}); err == nil {
			t.Fatal("it runs at a port that is taken")
		}
		wrong = c
		wrong.GRPC.TLSCertificate, wrong.GRPC.TLSKey = "nowhere.pem", "nowhere.pem"
		if _, err := New(wrong, slog.New(slog.DiscardHandler)); err == nil {
			t.Fatal("it runs without its certificate")
		}
	}
	if a, _ := newApp(t, c); a.safe.Active() {
		t.Error("the box leaves its models out")
	} else {
		a.safe.Undo()
		_ = errors.Join(a.closeBox(), a.store.Close())
	}
}
