package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of the audit log.
const (
	MaxAudit      = 200_000 // lines; then the oldest go, and the chain begins at the first that is left
	auditDrop     = 1_000   // lines that go together
	maxAuditField = 1_000   // bytes of a field of a line
)

// line is a line of the audit log, as it is stored. Before is the hash of the line before it.
type line struct {
	admin.AuditEntry
	Before string `json:"before"`
}

// Record writes a line to the audit log. Number, Time and Hash are filled in.
func (a *Accounts) Record(e admin.AuditEntry) error {
	e.Time = time.Now().UTC()
	for _, field := range []*string{&e.Actor, &e.Target, &e.Detail, &e.Error} {
		*field = strings.ToValidUTF8((*field)[:min(len(*field), maxAuditField)], "?")
	}
	a.auditing.Lock()
	defer a.auditing.Unlock()
	before, head := a.head, ""
	err := a.cfg.Documents.Update(func(tx edgewise.DocumentsTx) error {
		number, err := tx.Append(auditBucket, func(number uint64) ([]byte, error) {
			e.Number = number
			l := line{e, before}
			l.Hash = l.sum()
			head = l.Hash
			return json.Marshal(l)
		})
		if err != nil || number%auditDrop != 0 || number <= MaxAudit {
			return err
		}
		return tx.Drop(auditBucket, auditDrop)
	})
	if err == nil {
		a.head = head
	}
	return err
}

// sum is the hash over everything of a line but the hash itself.
func (l line) sum() string {
	l.Hash = ""
	text, err := json.Marshal(l)
	if err != nil {
		return "" // text and numbers always marshal
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}

// AuditQuery says which lines of the audit log are wanted.
type AuditQuery struct {
	Before uint64 // only lines with a smaller number; 0: all
	Limit  int
	Actor  string // whole; empty: anybody
	Action string // whole, or the part before its dot; empty: any
}

func (q AuditQuery) wants(e admin.AuditEntry) bool {
	return (q.Actor == "" || e.Actor == q.Actor) && (q.Action == "" || e.Action == q.Action ||
		strings.HasPrefix(e.Action, q.Action+"."))
}

// Audit reads the audit log, latest first.
func (a *Accounts) Audit(q AuditQuery) (admin.AuditPage, error) {
	page := admin.AuditPage{Entries: []admin.AuditEntry{}}
	err := a.cfg.Documents.View(func(tx edgewise.DocumentsTx) error {
		tx.Backward(auditBucket, q.Before, func(number uint64, value []byte) bool {
			var l line
			if json.Unmarshal(value, &l) != nil || !q.wants(l.AuditEntry) {
				return true
			}
			if len(page.Entries) == q.Limit {
				page.Next = page.Entries[q.Limit-1].Number
				return false
			}
			page.Entries = append(page.Entries, l.AuditEntry)
			return true
		})
		return nil
	})
	return page, err
}

// VerifyAudit computes the chain of hashes again.
func (a *Accounts) VerifyAudit() (admin.AuditVerification, error) {
	v := admin.AuditVerification{Whole: true}
	before, next := "", uint64(0)
	err := a.cfg.Documents.View(func(tx edgewise.DocumentsTx) error {
		tx.Forward(auditBucket, func(number uint64, value []byte) bool {
			var l line
			good := json.Unmarshal(value, &l) == nil && l.Number == number && l.Hash == l.sum()
			if v.Entries > 0 {
				good = good && l.Before == before && number == next
			} else {
				good = good && (number > 1 || l.Before == "")
			}
			if !good {
				v.Whole, v.Broken = false, number
				return false
			}
			v.Entries++
			before, next, v.Head = l.Hash, number+1, l.Hash
			return true
		})
		return nil
	})
	return v, err
}
