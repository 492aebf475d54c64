package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/alerts"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/certificate"
	"github.com/edgewise-ai/edgewise/appliance/editor"
	"github.com/edgewise-ai/edgewise/appliance/fleet"
	"github.com/edgewise-ai/edgewise/appliance/golden"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/recordings"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/rollout"
	"github.com/edgewise-ai/edgewise/appliance/roofline"
	"github.com/edgewise-ai/edgewise/appliance/tune"
	"github.com/edgewise-ai/edgewise/host"
)

// box is what the REST frontend sees of the appliance: its name, settings and state.
type box struct {
	app       *App
	documents edgewise.Documents
	started   time.Time

	mu       sync.Mutex // guards settings and steps
	settings admin.Settings
	steps    map[string]bool // of the setup, that are done
	urls     []string
	grpcAt   string
}

var _ administration.Box = (*box)(nil)

const (
	boxBucket   = "box"
	settingsKey = "settings"
	stepsKey    = "steps"
)

// setupSteps are the steps of the setup behind the claim, in order.
func setupSteps() []string { return []string{"name", "tls", "model"} }

// load reads the settings; what was never set has its default.
func (b *box) load() error {
	idle, total := auth.DefaultSessionIdle, auth.DefaultSession
	b.settings = admin.Settings{
		Name: boxName(hostname()), SessionIdle: int64(idle / time.Second),
		Session: int64(total / time.Second), MetricsPublic: b.app.config.Metrics.Public,
	}
	b.steps = map[string]bool{}
	return b.documents.View(func(tx edgewise.DocumentsTx) error {
		for _, key := range []string{settingsKey, stepsKey} {
			text := tx.Get(boxBucket, key)
			if text == nil {
				continue
			}
			value, err := decodeBox(key, text)
			if err != nil {
				b.app.logger.Error("a document of the box is damaged and has no effect: edgewise doctor says more", "document", key, "error", err)
				continue
			}
			switch value := value.(type) {
			case admin.Settings:
				b.settings = value
			case map[string]bool:
				maps.Copy(b.steps, value)
			}
		}
		return nil
	})
}

// Check returns an error when settings are out of bounds. Errors: Invalid with Field.
func (b *box) Check(s admin.Settings) error { return checkSettings(s) }

// Put stores settings as part of a transaction; Adopt makes them the current ones when it is committed.
func (b *box) Put(tx edgewise.DocumentsTx, s admin.Settings) error {
	return putBox(tx, settingsKey, s)
}

func putBox(tx edgewise.DocumentsTx, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return edgewise.Errorf("appliance.putBox", edgewise.Internal, "encoding the %s: %w", key, err)
	}
	return tx.Put(boxBucket, key, text)
}

// Adopt makes stored settings the current ones.
func (b *box) Adopt(s admin.Settings) {
	b.mu.Lock()
	b.settings = s
	b.mu.Unlock()
	b.app.publish("settings", s)
}

func hostname() string {
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "edgewise"
}

// boxName makes a name of a box of a machine's, which may be longer.
func boxName(host string) string {
	letters := []rune(host)
	return string(letters[:min(len(letters), maxBoxName)])
}

func (b *box) store(key string, value any) error {
	return b.documents.Update(func(tx edgewise.DocumentsTx) error { return putBox(tx, key, value) })
}

// Settings returns what can be changed while the box runs.
func (b *box) Settings() admin.Settings {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settings
}

// Bounds of settings.
const (
	maxBoxName     = 63 // characters
	minSessionIdle = 60
	maxSessionIdle = 30 * 24 * 3600
	minSession     = 300
	maxSession     = 365 * 24 * 3600

	maxKeepVersions = 10_000
)

// ChangeSettings changes what is not nil. Errors: Invalid with Field.
func (b *box) ChangeSettings(c admin.SettingsChange) (admin.Settings, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.settings
	if c.Name != nil {
		s.Name = strings.TrimSpace(*c.Name)
	}
	if c.SessionIdle != nil {
		s.SessionIdle = *c.SessionIdle
	}
	if c.Session != nil {
		s.Session = *c.Session
	}
	if c.MetricsPublic != nil {
		s.MetricsPublic = *c.MetricsPublic
	}
	if c.KeepVersions != nil {
		s.KeepVersions = *c.KeepVersions
	}
	if err := checkSettings(s); err != nil {
		return b.settings, err
	}
	if err := b.store(settingsKey, s); err != nil {
		return b.settings, err
	}
	b.settings = s
	b.app.publish("settings", s)
	return s, nil
}

func checkSettings(s admin.Settings) error {
	fail := func(field, format string, args ...any) error {
		return edgewise.Errorf("appliance.ChangeSettings", edgewise.Invalid, format, args...).WithField(field)
	}
	switch n := utf8.RuneCountInString(s.Name); {
	case n == 0 || n > maxBoxName || strings.ContainsFunc(s.Name, unicode.IsControl):
		return fail("name", "the box's name has %d characters: want 1 to %d, and no control characters", n, maxBoxName)
	case s.SessionIdle < minSessionIdle || s.SessionIdle > maxSessionIdle:
		return fail("session_idle_seconds", "session_idle_seconds is %d: want %d to %d", s.SessionIdle, minSessionIdle, maxSessionIdle)
	case s.Session < minSession || s.Session > maxSession:
		return fail("session_seconds", "session_seconds is %d: want %d to %d", s.Session, minSession, maxSession)
	case s.KeepVersions < 0 || s.KeepVersions > maxKeepVersions:
		return fail("keep_versions", "keep_versions is %d: want 0 to %d", s.KeepVersions, maxKeepVersions)
	}
	return nil
}

// keptVersions returns how many versions of each model are kept; 0: all.
func (a *App) keptVersions() int { return a.box.Settings().KeepVersions }

func (b *box) sessionTimes() (idle, total time.Duration) {
	s := b.Settings()
	return time.Duration(s.SessionIdle) * time.Second, time.Duration(s.Session) * time.Second
}

// Setup returns the state of the setup.
func (b *box) Setup() admin.Setup {
	claimed := b.app.openMode() || b.app.accounts.Claimed()
	s := admin.Setup{Claimed: claimed, Auth: b.app.config.Auth, Name: b.Settings().Name, Version: Version, PasswordBytes: auth.MinPassword}
	if b.app.identity != nil {
		s.Fingerprint = b.app.identity.Describe().Fingerprint
	}
	s.Steps = []admin.SetupStep{{Name: "claim", Done: claimed}}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range setupSteps() {
		s.Steps = append(s.Steps, admin.SetupStep{Name: name, Done: b.steps[name] || b.app.openMode()})
	}
	if i := slices.IndexFunc(s.Steps, func(step admin.SetupStep) bool { return !step.Done }); i >= 0 {
		s.Next = s.Steps[i].Name
	}
	return s
}

// FinishStep marks a step of the setup. Errors: NotFound.
func (b *box) FinishStep(step string) error {
	if !slices.Contains(setupSteps(), step) {
		return edgewise.Errorf("appliance.FinishStep", edgewise.NotFound, "the setup has no step %.40q: want one of %s",
			step, strings.Join(setupSteps(), ", "))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	steps := maps.Clone(b.steps)
	steps[step] = true
	if err := b.store(stepsKey, steps); err != nil {
		return err
	}
	b.steps = steps
	return nil
}

// System describes the box.
func (b *box) System() admin.System {
	a := b.app
	s := admin.System{
		Name: b.Settings().Name, Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Hostname: hostname(),
		Started: b.started, Time: time.Now().UTC(), Auth: a.config.Auth, Ready: a.engine.Ready(), Memory: machineMemory(), CPU: a.cpu(),
		Components: components(), Disk: admin.Disk{Reserve: int64(a.config.Store.ReserveBytes)},
	}
	b.mu.Lock()
	s.Addresses, s.GRPCAddress = append([]string{}, b.urls...), b.grpcAt
	b.mu.Unlock()
	if usage, err := a.store.Usage(); err == nil {
		s.Disk.Total, s.Disk.Used, s.Disk.Free = usage.Total, usage.Bytes, usage.Free
	}
	now := a.system.Update()
	s.Update, s.FailedBoot, s.SafeStart = &now, a.system.FailedBoot(), a.safe.Describe()
	s.Warnings = a.warnings(s)
	return s
}

// Configuration lists the keys that the box was started with, without secrets.
func (b *box) Configuration() []admin.ConfigurationKey {
	var list []admin.ConfigurationKey
	for _, k := range b.app.config.Keys() {
		list = append(list, admin.ConfigurationKey{
			Name: k.Name, Value: k.Shown(), Default: k.Default, Unit: k.Unit, Doc: k.Doc,
		})
	}
	return list
}

// TLS describes the certificate.
func (b *box) TLS() admin.TLS {
	if b.app.identity == nil {
		return admin.TLS{Mode: certificate.ModeOff}
	}
	return b.app.identity.Describe()
}

func (b *box) withIdentity(change func(*certificate.Identity) error) (admin.TLS, error) {
	if b.app.identity == nil {
		return b.TLS(), edgewise.Errorf("appliance.TLS", edgewise.Conflict,
			"TLS is disabled (tls.mode is off): there is no certificate to change")
	}
	err := change(b.app.identity)
	return b.TLS(), err
}

// SetTLS uses another certificate.
func (b *box) SetTLS(u admin.TLSUpload) (admin.TLS, error) {
	return b.withIdentity(func(i *certificate.Identity) error { return i.Upload(u) })
}

// ResetTLS goes back to a certificate of the box's own authority.
func (b *box) ResetTLS() (admin.TLS, error) {
	return b.withIdentity(func(i *certificate.Identity) error { return i.Reset() })
}

// Authority returns the certificate of the box's own authority.
func (b *box) Authority() ([]byte, error) {
	if b.app.identity == nil {
		return nil, edgewise.Errorf("appliance.Authority", edgewise.NotFound, "TLS is disabled (tls.mode is off): there is no authority")
	}
	return b.app.identity.Authority(), nil
}

// machineMemory returns the memory of the machine, and what this process has resident.
func machineMemory() admin.Memory {
	var m admin.Memory
	m.Total, m.Available, _ = host.Memory("/")
	m.Box, _ = host.ProcessBytes("/", 0, host.Resident)
	return m
}

// cpu returns the number of cores, and their load when the watch read it last.
func (a *App) cpu() admin.CPU { return admin.CPU{Cores: runtime.NumCPU(), Load: a.processors.Last()} }

// Devices lists what models run on: the CPU, then the GPUs that were found, also those that are not used.
func (b *box) Devices() []admin.Device {
	memory, cpu := machineMemory(), b.app.cpu()
	used := memory.Total - memory.Available
	first := admin.Device{
		Name: edgewise.Device{}.String(), Kind: "cpu", Description: host.Processor("/"), Cores: cpu.Cores, Load: &cpu.Load,
		MemoryTotal: memory.Total, MemoryUsed: &used, Models: []edgewise.ModelID{}, Used: true,
	}
	list := []admin.Device{}
	var elsewhere []edgewise.ModelID
	for _, info := range b.app.hardware.List()[1:] {
		d := gpuDevice(info)
		d.Models = b.app.serving.ModelsOn(info.Device)
		elsewhere = append(elsewhere, d.Models...)
		list = append(list, d)
	}
	for _, s := range b.app.manager.Statuses() {
		if s.State == edgewise.StateReady && !slices.Contains(elsewhere, s.ID) {
			first.Models = append(first.Models, s.ID)
		}
	}
	return append([]admin.Device{first}, list...)
}

// Backends lists the backends of other programs.
func (b *box) Backends() []admin.Backend { return b.app.external.List(context.Background()) }

func gpuDevice(info edgewise.DeviceInfo) admin.Device {
	d := admin.Device{
		Name: info.Name, Kind: info.Kind, Description: info.Description, Vendor: info.Vendor, Type: info.Type, Driver: info.Driver,
		Cores: info.Cores, MemoryTotal: info.MemoryTotal, MemoryBudget: info.Budget, Capability: info.Capability,
		Used: info.Used, Reason: info.Reason, Telemetry: info.Telemetry, Losses: info.Losses, LastLoss: info.LastLoss, Loss: info.Loss,
	}
	if t := info.Telemetry; t != nil {
		d.Load = t.Utilization
		if t.MemoryUsed != nil {
			used := int64(*t.MemoryUsed)
			d.MemoryUsed = &used
		}
	}
	return d
}

// checkDocument tells whether a document may stand under a key of a bucket of box.db, whose form docs/formats/box.md
// gives. Buckets of later releases pass. The error names the document and not what it holds. Errors: Invalid.
func checkDocument(bucket, key string, value []byte) error {
	var err error
	switch bucket {
	case registry.NotesBucket:
		err = checkNote(key, value)
	case registry.FindingsBucket:
		err = json.Unmarshal(value, &admin.Choice{})
	case registry.FootprintsBucket:
		err = registry.CheckFootprint(value)
	case recordings.Bucket:
		_, err = recordings.Decode(value)
	case editor.DraftsBucket:
		err = editor.CheckDraft(key, value)
	case golden.Bucket, golden.SettingsBucket, golden.ReportsBucket:
		err = golden.CheckDocument(bucket, key, value)
	case boxBucket:
		_, err = decodeBox(key, value)
	case rollout.Bucket:
		err = rollout.Check(key, value)
	case rollout.SettingsBucket:
		err = rollout.CheckSettingsDocument(key, value)
	case roofline.Bucket:
		err = roofline.CheckDocument(value)
	case tune.Bucket:
		err = tune.CheckDocument(key, value)
	case fleet.Bucket:
		err = fleet.CheckDocument(key, value)
	case registry.DeploymentsBucket:
		err = json.Unmarshal(value, &admin.Deployment{})
	default:
		return auth.CheckDocument(bucket, key, value)
	}
	if err != nil {
		return edgewise.Errorf("appliance.checkDocument", edgewise.Invalid, "%s: document %.80q: %w", bucket, key, err)
	}
	return nil
}

// checkNote checks the notes about a model or a version.
func checkNote(key string, text []byte) error {
	name, number, versioned := strings.Cut(key, "\x00")
	if err := edgewise.CheckName(name); err != nil {
		return err
	}
	if n, err := strconv.ParseInt(number, 10, 64); versioned && (err != nil || n <= 0) {
		return fmt.Errorf("%.40q is no version", number)
	}
	if len(text) > admin.MaxNotesBytes || !utf8.Valid(text) {
		return fmt.Errorf("the notes have %d bytes: want at most %d, as UTF-8", len(text), admin.MaxNotesBytes)
	}
	return nil
}

// decodeBox reads a document of the box itself.
func decodeBox(key string, value []byte) (any, error) {
	switch key {
	case settingsKey:
		var s admin.Settings
		if err := json.Unmarshal(value, &s); err != nil {
			return nil, err
		}
		return s, checkSettings(s)
	case alerts.Key:
		return alerts.Decode(value)
	case stepsKey:
		var steps map[string]bool
		return steps, json.Unmarshal(value, &steps)
	case registry.RenamedKey:
		var followed time.Time
		return followed, followed.UnmarshalText(value)
	}
	return nil, nil
}
