package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// memory keeps documents in maps. A transaction that fails leaves them as they were.
type memory struct {
	keyed    map[string]map[string][]byte
	appended map[string][]line2
	sequence map[string]uint64
	full     bool // updates fail
}

type line2 struct {
	number uint64
	value  []byte
}

func newMemory() *memory {
	return &memory{keyed: map[string]map[string][]byte{}, appended: map[string][]line2{}, sequence: map[string]uint64{}}
}

func (m *memory) View(fn func(edgewise.DocumentsTx) error) error { return fn(m) }

func (m *memory) Update(fn func(edgewise.DocumentsTx) error) error {
	if m.full {
		return edgewise.Errorf("test", edgewise.Exhausted, "the disk is full")
	}
	return fn(m)
}
func (m *memory) Get(bucket, key string) []byte { return m.keyed[bucket][key] }
func (m *memory) Put(bucket, key string, value []byte) error {
	if m.keyed[bucket] == nil {
		m.keyed[bucket] = map[string][]byte{}
	}
	m.keyed[bucket][key] = value
	return nil
}

func (m *memory) Delete(bucket, key string) error {
	delete(m.keyed[bucket], key)
	return nil
}

func (m *memory) Each(bucket string, fn func(string, []byte) error) error {
	for key, value := range m.keyed[bucket] {
		if err := fn(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Append(bucket string, encode func(uint64) ([]byte, error)) (uint64, error) {
	m.sequence[bucket]++
	value, err := encode(m.sequence[bucket])
	m.appended[bucket] = append(m.appended[bucket], line2{m.sequence[bucket], value})
	return m.sequence[bucket], err
}

func (m *memory) Backward(bucket string, before uint64, fn func(uint64, []byte) bool) {
	for i := len(m.appended[bucket]) - 1; i >= 0; i-- {
		if l := m.appended[bucket][i]; (before == 0 || l.number < before) && !fn(l.number, l.value) {
			return
		}
	}
}

func (m *memory) Forward(bucket string, fn func(uint64, []byte) bool) {
	for _, l := range m.appended[bucket] {
		if !fn(l.number, l.value) {
			return
		}
	}
}

func (m *memory) Drop(bucket string, n int) error {
	m.appended[bucket] = m.appended[bucket][min(n, len(m.appended[bucket])):]
	return nil
}

const goodPassword = "correct horse battery"

var cheap = Cost{Time: 1, Memory: 64, Threads: 1}

func open(t testing.TB, m *memory) *Accounts {
	t.Helper()
	a, err := Open(Config{Documents: m, Log: slog.New(slog.DiscardHandler), Hashing: cheap})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func claimed(t testing.TB, m *memory) (*Accounts, Login) {
	t.Helper()
	a := open(t, m)
	l, err := a.Claim(admin.Claim{Code: a.ClaimCode(), User: "anna", Password: goodPassword}, Caller{Address: "192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	return a, l
}

func wantKind(t testing.TB, err error, kind edgewise.Kind, text string) {
	t.Helper()
	if err == nil || edgewise.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Helper()
		t.Errorf("got %v, want %v with %q", err, kind, text)
	}
}

func TestABoxIsClaimedOnce(t *testing.T) {
	m := newMemory()
	code := open(t, m).ClaimCode()
	a := open(t, m)
	if a.ClaimCode() != code || len(code) != 19 {
		t.Errorf("the code %q has become %q after a restart", code, a.ClaimCode())
	}
	_, err := a.Claim(admin.Claim{Code: "no", User: "anna", Password: goodPassword}, Caller{})
	wantKind(t, err, edgewise.Unauthenticated, "not the claim code")
	_, err = a.Claim(admin.Claim{Code: code, User: "anna", Password: "short"}, Caller{})
	wantKind(t, err, edgewise.Invalid, "want 12 or more")
	l, err := a.Claim(admin.Claim{
		Code: strings.ToLower(strings.ReplaceAll(code, "-", " ")), User: "anna",
		Password: goodPassword,
	}, Caller{})
	if err != nil || l.Session.Role != RoleAdmin || !a.Claimed() {
		t.Fatalf("%+v, %v", l.Session, err)
	}
	_, err = a.Claim(admin.Claim{Code: code, User: "eve", Password: goodPassword}, Caller{})
	wantKind(t, err, edgewise.Conflict, "claimed already")
	if again := open(t, m); !again.Claimed() || len(again.Users()) != 1 {
		t.Error("it can be claimed again after a restart")
	}
}

func TestWrongClaimCodesPauseTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := open(t, newMemory())
		try := func(code string) error {
			_, err := a.Claim(admin.Claim{Code: code, User: "anna", Password: goodPassword}, Caller{})
			return err
		}
		for range ClaimTries {
			wantKind(t, try("WRONG"), edgewise.Unauthenticated, "not the claim code")
		}
		wantKind(t, try(a.ClaimCode()), edgewise.Busy, "try again in 30 s")
		time.Sleep(ClaimPause)
		if err := try(a.ClaimCode()); err != nil {
			t.Error(err)
		}
	})
}

func TestPasswordsThatAreRefused(t *testing.T) {
	for password, want := range map[string]string{
		"short":                      "want 12 or more",
		strings.Repeat("Xy1!a", 300): "want at most 1024",
		"aaaaaaaaaaaaa":              "repeats the same 1 characters",
		"my-anna-password":           "holds the user's name",
		"Password1234!":              "tried first",
		"qwertzuiop-123":             "tried first",
		"AdminAdmin2026":             "tried first",
	} {
		wantKind(t, checkPassword("password", "anna", password), edgewise.Invalid, want)
	}
	if err := checkPassword("password", "anna", goodPassword); err != nil {
		t.Error(err)
	}
}

func TestAHashMatchesItsPasswordAlone(t *testing.T) {
	hash := cheap.hash(goodPassword)
	if !matches(goodPassword, hash) || matches(goodPassword+"x", hash) || hash == cheap.hash(goodPassword) {
		t.Error(hash)
	}
	for _, bad := range []string{
		"", "$argon2id$", "$argon2id$v=19$m=99999999,t=1,p=1$AAAA$AAAA",
		"$argon2id$v=19$m=64,t=0,p=1$AAAA$AAAA", strings.Replace(hash, "argon2id", "argon2i", 1),
	} {
		if matches(goodPassword, bad) {
			t.Errorf("%q matches", bad)
		}
	}
}

func TestLoginIsLimitedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := claimed(t, newMemory())
		try := func(address, password string) error {
			_, err := a.Login(admin.Login{User: "ANNA", Password: password}, Caller{Address: address})
			return err
		}
		wantKind(t, try("192.0.2.9", "wrong"), edgewise.Unauthenticated, "name or the password")
		wantKind(t, try("192.0.2.9", goodPassword), edgewise.Busy, "try again in 1 s")
		if err := try("192.0.2.10", goodPassword); err != nil {
			t.Errorf("another address: %v", err)
		}
		tries := 1
		for time.Sleep(time.Second); tries < TriesPerMinute; tries++ {
			wantKind(t, try("192.0.2.9", "wrong"), edgewise.Unauthenticated, "")
			time.Sleep(time.Second)
		}
		wantKind(t, try("192.0.2.9", goodPassword), edgewise.Busy, "s")
		for ; tries < TriesPerHour; tries++ {
			time.Sleep(time.Minute)
			wantKind(t, try("192.0.2.9", "wrong"), edgewise.Unauthenticated, "")
		}
		time.Sleep(time.Minute)
		wantKind(t, try("192.0.2.9", goodPassword), edgewise.Busy, "s")
		time.Sleep(time.Hour)
		if err := try("192.0.2.9", goodPassword); err != nil {
			t.Error(err)
		}
		if err := try("192.0.2.9", goodPassword); err != nil {
			t.Errorf("a good login does not count: %v", err)
		}
		for range TriesPerMinute {
			_ = try("192.0.2.11", "wrong")
			time.Sleep(time.Second)
			_ = try("192.0.2.11", goodPassword)
		}
		wantKind(t, try("192.0.2.11", "wrong"), edgewise.Busy, "try again")
	})
}

func TestAddressesOfOneNetworkCountTogether(t *testing.T) {
	if network("2001:db8::1") != network("2001:db8::2") || network("2001:db8::1") == network("2001:db8:0:1::1") ||
		network("192.0.2.1") == network("192.0.2.2") || network("::ffff:192.0.2.1") != network("192.0.2.1") {
		t.Error("networks are told apart wrongly")
	}
	l := newLimiter()
	for i := range maxAddresses + 100 {
		l.try(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if len(l.tries) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(l.tries))
	}
}

func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, l := claimed(t, m)
		if p, err := a.Person(l.Token); err != nil || p.Name != "anna" || p.Rights != edgewise.AllRights {
			t.Fatalf("%+v, %v", p, err)
		}
		for range 5 { // use keeps it
			time.Sleep(DefaultSessionIdle - time.Hour)
			if _, err := open(t, m).Person(l.Token); err == nil && time.Since(l.Expires) > 0 {
				t.Error("longer than at all")
			}
			_, err := a.Person(l.Token)
			if past := time.Now().After(l.Expires); past != (err != nil) {
				t.Errorf("at %v of %v: %v", time.Now(), l.Expires, err)
			}
		}
		l, err := a.Login(admin.Login{User: "anna", Password: goodPassword}, Caller{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultSessionIdle)
		_, err = a.Person(l.Token)
		wantKind(t, err, edgewise.Unauthenticated, "the session has ended")
	})
}

func TestASessionIsKnownByItsTokenAlone(t *testing.T) {
	m := newMemory()
	a, l := claimed(t, m)
	for _, bad := range []string{"", "x", l.Token[1:], l.Token + "0"} {
		if _, err := a.Person(bad); err == nil {
			t.Errorf("token %q is somebody", bad)
		}
	}
	for key, value := range m.keyed[sessionsBucket] {
		if strings.Contains(key+string(value), l.Token) {
			t.Error("the token itself is stored")
		}
	}
	p, err := open(t, m).Person(l.Token)
	if err != nil {
		t.Fatalf("after a restart: %v", err)
	}
	if err := a.CheckCSRF(p, l.Session.CSRF); err != nil {
		t.Error(err)
	}
	wantKind(t, a.CheckCSRF(p, "x"), edgewise.Denied, "X-CSRF-Token")
	if err := a.EndSession(p, p.Session); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Person(l.Token); err == nil {
		t.Error("it goes on after its end")
	}
}

func TestTheLastAdminStays(t *testing.T) {
	a, _ := claimed(t, newMemory())
	viewer, yes := RoleViewer, true
	_, err := a.ChangeUser("anna", admin.UserChange{Role: &viewer})
	wantKind(t, err, edgewise.Conflict, "last admin")
	_, err = a.ChangeUser("anna", admin.UserChange{Disabled: &yes})
	wantKind(t, err, edgewise.Conflict, "last admin")
	wantKind(t, a.DeleteUser("anna"), edgewise.Conflict, "last admin")
	_, err = a.CreateUser(admin.UserNew{Name: "Anna", Role: RoleAdmin, Password: goodPassword + "1"})
	wantKind(t, err, edgewise.Exists, `"anna"`)
	if _, err := a.CreateUser(admin.UserNew{Name: "bert", Role: RoleAdmin, Password: goodPassword}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ChangeUser("anna", admin.UserChange{Role: &viewer}); err != nil {
		t.Error(err)
	}
}

func TestANewPasswordEndsTheOtherSessions(t *testing.T) {
	a, first := claimed(t, newMemory())
	second, err := a.Login(admin.Login{User: "anna", Password: goodPassword}, Caller{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Person(second.Token)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.ChangePassword(p, admin.PasswordChange{Old: goodPassword, New: goodPassword + "!"}, Caller{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Person(first.Token); err == nil {
		t.Error("the other session goes on")
	}
	if _, err := a.Person(second.Token); err != nil {
		t.Errorf("one's own: %v", err)
	}
	if _, err := a.Login(admin.Login{User: "anna", Password: goodPassword}, Caller{Address: "192.0.2.7"}); err == nil {
		t.Error("the old password works")
	}
}

func TestThePasswordIsConfirmedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := claimed(t, newMemory())
		p, _ := a.Person(l.Token)
		if err := a.Confirmed(p); err != nil {
			t.Errorf("after the login: %v", err)
		}
		time.Sleep(ConfirmTime)
		wantKind(t, a.Confirmed(p), edgewise.Denied, "password again")
		wantKind(t, a.Confirm(p, "wrong", Caller{}), edgewise.Unauthenticated, "not your password")
		time.Sleep(time.Second)
		if err := a.Confirm(p, goodPassword, Caller{}); err != nil || a.Confirmed(p) != nil {
			t.Errorf("%v, %v", err, a.Confirmed(p))
		}
	})
}

func TestAUserHasABoundedNumberOfSessions(t *testing.T) {
	a, first := claimed(t, newMemory())
	for range MaxSessionsPerUser {
		if _, err := a.Login(admin.Login{User: "anna", Password: goodPassword}, Caller{}); err != nil {
			t.Fatal(err)
		}
	}
	p := &edgewise.Principal{Kind: "person", Name: "anna"}
	if n := len(a.Sessions(p)); n != MaxSessionsPerUser {
		t.Errorf("%d sessions", n)
	}
	if _, err := a.Person(first.Token); err == nil {
		t.Error("the oldest goes on")
	}
}

var boxItself = &edgewise.Principal{Kind: "box", Rights: edgewise.AllRights}

func TestKeysDoWhatTheyAreGivenAndNoMore(t *testing.T) {
	m := newMemory()
	a, _ := claimed(t, m)
	made, err := a.CreateKey(admin.KeyNew{Name: "camera", Rights: []string{"infer"}, Models: []string{"face*"}}, boxItself)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := open(t, m).Bearer(made.Secret, false)
	if err != nil || p.Rights != edgewise.Infer || !p.MayName("face_2") || p.MayName("text") {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bucket := range m.keyed {
		for _, value := range bucket {
			if strings.Contains(string(value), made.Secret) {
				t.Error("the secret itself is stored")
			}
		}
	}
	operator := &edgewise.Principal{Kind: "person", Name: "olga", Rights: edgewise.Read | edgewise.Operate}
	_, err = a.CreateKey(admin.KeyNew{Name: "x", Rights: []string{"admin"}}, operator)
	wantKind(t, err, edgewise.Denied, "may not give away")
	off := true
	if _, err := a.ChangeKey(made.Key.ID, admin.KeyChange{Disabled: &off}, boxItself); err != nil {
		t.Fatal(err)
	}
	_, _, err = a.Bearer(made.Secret, false)
	wantKind(t, err, edgewise.Unauthenticated, "disabled")
	if err := a.DeleteKey(made.Key.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = a.Bearer(made.Secret, false)
	wantKind(t, err, edgewise.Unauthenticated, "not known here")
	_, _, err = a.Bearer(made.Secret[:len(made.Secret)-1]+"z", false)
	wantKind(t, err, edgewise.Unauthenticated, "not an API key")
}

func TestKeysThatAreRefused(t *testing.T) {
	a, _ := claimed(t, newMemory())
	for name, test := range map[string]struct {
		key   admin.KeyNew
		field string
	}{
		"no name":   {admin.KeyNew{Rights: []string{"read"}}, "name"},
		"long name": {admin.KeyNew{Name: strings.Repeat("n", maxKeyName+1), Rights: []string{"read"}}, "name"},
		"no right":  {admin.KeyNew{Name: "k"}, "rights"},
		"no such":   {admin.KeyNew{Name: "k", Rights: []string{"fly"}}, "rights"},
		"bad model": {admin.KeyNew{Name: "k", Rights: []string{"read"}, Models: []string{"a/b"}}, "models"},
		"many":      {admin.KeyNew{Name: "k", Rights: []string{"read"}, Models: make([]string, maxKeyModels+1)}, "models"},
		"no origin": {admin.KeyNew{Name: "k", Rights: []string{"read"}, Origins: []string{"shop.example"}}, "origins"},
		"origins": {
			admin.KeyNew{Name: "k", Rights: []string{"read"}, Origins: make([]string, maxKeyOrigins+1)},
			"origins",
		},
		"rate":        {admin.KeyNew{Name: "k", Rights: []string{"read"}, Rate: -1}, "rate"},
		"high rate":   {admin.KeyNew{Name: "k", Rights: []string{"read"}, Rate: maxRate + 1}, "rate"},
		"at a time":   {admin.KeyNew{Name: "k", Rights: []string{"read"}, Concurrency: maxConcurrency + 1}, "concurrency"},
		"in the past": {admin.KeyNew{Name: "k", Rights: []string{"read"}, Expires: time.Now().Add(-time.Hour)}, "expires"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.CreateKey(test.key, boxItself)
			wantKind(t, err, edgewise.Invalid, "")
			if own, ok := errors.AsType[*edgewise.Error](err); !ok || own.Field != test.field {
				t.Errorf("%+v, want field %s", err, test.field)
			}
		})
	}
}

func TestKeysExpireAndAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := claimed(t, newMemory())
		make := func(n admin.KeyNew) string {
			n.Name, n.Rights = "k", []string{"infer"}
			made, err := a.CreateKey(n, boxItself)
			if err != nil {
				t.Fatal(err)
			}
			return made.Secret
		}
		short := make(admin.KeyNew{Expires: time.Now().Add(time.Minute)})
		rated := make(admin.KeyNew{Rate: 2})
		alone := make(admin.KeyNew{Concurrency: 1})
		for range 2 {
			if _, _, err := a.Bearer(rated, false); err != nil {
				t.Error(err)
			}
		}
		_, _, err := a.Bearer(rated, false)
		wantKind(t, err, edgewise.Busy, "2 requests a second")
		time.Sleep(500 * time.Millisecond)
		if _, _, err := a.Bearer(rated, false); err != nil {
			t.Error(err)
		}
		_, done, err := a.Bearer(alone, false)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = a.Bearer(alone, false)
		wantKind(t, err, edgewise.Busy, "1 requests in progress")
		done()
		if _, _, err := a.Bearer(alone, false); err != nil {
			t.Error(err)
		}
		if _, _, err := a.Bearer(short, false); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		_, _, err = a.Bearer(short, false)
		wantKind(t, err, edgewise.Unauthenticated, "has expired")
	})
}

func TestTheLocalTokenIsForThisMachine(t *testing.T) {
	a, _ := claimed(t, newMemory())
	token := a.LocalToken()
	p, _, err := a.Bearer(token, true)
	if err != nil || p.Kind != "local" || p.Rights != edgewise.AllRights {
		t.Errorf("%+v, %v", p, err)
	}
	_, _, err = a.Bearer(token, false)
	wantKind(t, err, edgewise.Denied, "from the box itself only")
	a.LocalToken()
	_, _, err = a.Bearer(token, true)
	wantKind(t, err, edgewise.Unauthenticated, "changes whenever")
}

func TestTheAuditLogIsAChain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMemory()
		a := open(t, m)
		n := rapid.IntRange(1, 12).Draw(rt, "lines")
		for i := range n {
			if i == n/2 {
				a = open(t, m) // a restart goes on with the chain
			}
			if err := a.Record(admin.AuditEntry{
				Actor: "person:anna", Action: "label.set",
				Target: rapid.String().Draw(rt, "target"),
			}); err != nil {
				rt.Fatal(err)
			}
		}
		if v, err := a.VerifyAudit(); err != nil || !v.Whole || v.Entries != uint64(n) {
			rt.Fatalf("%+v, %v", v, err)
		}
		lines := m.appended[auditBucket]
		i := rapid.IntRange(0, n-1).Draw(rt, "spoilt")
		if rapid.Bool().Draw(rt, "taken out") && i > 0 && i < n-1 {
			m.appended[auditBucket] = append(append([]line2{}, lines[:i]...), lines[i+1:]...)
		} else {
			lines[i].value = []byte(strings.Replace(string(lines[i].value), "person:anna", "person:otto", 1))
		}
		if v, err := a.VerifyAudit(); err != nil || v.Whole {
			rt.Fatalf("line %d of %d was changed and nobody noticed: %+v, %v", i, n, v, err)
		}
	})
}

func TestTheAuditLogIsReadInPages(t *testing.T) {
	a := open(t, newMemory())
	for i := range 5 {
		if err := a.Record(admin.AuditEntry{
			Actor: "local", Action: "user.create", Target: fmt.Sprint(i),
			Detail: strings.Repeat("x", 2*maxAuditField),
		}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := a.Audit(AuditQuery{Limit: 2, Action: "user"})
	if err != nil || len(page.Entries) != 2 || page.Entries[0].Target != "4" || page.Next != 4 ||
		len(page.Entries[0].Detail) != maxAuditField {
		t.Errorf("%+v, %v", page, err)
	}
	page, err = a.Audit(AuditQuery{Limit: 9, Before: page.Next, Actor: "local"})
	if err != nil || len(page.Entries) != 3 || page.Next != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if page, _ = a.Audit(AuditQuery{Limit: 9, Action: "key"}); len(page.Entries) != 0 {
		t.Errorf("%+v", page)
	}
}

func TestAFullDiskChangesNothing(t *testing.T) {
	m := newMemory()
	a, l := claimed(t, m)
	m.full = true
	if _, err := a.CreateUser(admin.UserNew{Name: "bert", Role: RoleViewer, Password: goodPassword}); err == nil ||
		len(a.Users()) != 1 {
		t.Errorf("%v: %v", err, a.Users())
	}
	if _, err := a.Person(l.Token); err != nil {
		t.Errorf("who is logged in stays so: %v", err)
	}
}
