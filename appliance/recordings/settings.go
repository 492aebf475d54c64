package recordings

import (
	"encoding/json"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Buckets of the documents: the settings by model, and the secret of hashes.
const (
	Bucket       = "recordings"
	secretBucket = "recording_secret"
	secretKey    = "hash"
	secretBytes  = 32
)

// Bounds of the settings, and what they are where nothing is said.
const (
	MaxMasks     = 64
	MinQuota     = 1 << 20
	MaxQuota     = 1 << 40
	MinRetention = 60
	MaxRetention = 366 * 24 * 3600

	defaultShare     = 0.1
	defaultQuota     = 1 << 30
	defaultRetention = 7 * 24 * 3600
)

// defaults are the settings of a model that has none.
func defaults() admin.RecordingSettings {
	return admin.RecordingSettings{
		Share: defaultShare, QuotaBytes: defaultQuota, RetentionSeconds: defaultRetention, Masks: []admin.RecordingMask{},
	}
}

// CheckSettings reports the first reason why settings cannot be used. Error: Invalid, with the field.
func CheckSettings(s *admin.RecordingSettings) error {
	wrong := func(field, format string, values ...any) error {
		return edgewise.Errorf("recordings.CheckSettings", edgewise.Invalid, field+" "+format, values...).WithField(field)
	}
	switch {
	case !(s.Share > 0 && s.Share <= 1): // not a number is refused, too
		return wrong("share", "is %v: want a share of the requests above 0 and up to 1", s.Share)
	case s.QuotaBytes < MinQuota || s.QuotaBytes > MaxQuota:
		return wrong("quota_bytes", "is %d: want %d to %d", s.QuotaBytes, MinQuota, int64(MaxQuota))
	case s.RetentionSeconds < MinRetention || s.RetentionSeconds > MaxRetention:
		return wrong("retention_seconds", "is %d: want %d to %d", s.RetentionSeconds, MinRetention, MaxRetention)
	case len(s.Masks) > MaxMasks:
		return wrong("masks", "has %d entries: want at most %d", len(s.Masks), MaxMasks)
	}
	for i, m := range s.Masks {
		switch {
		case !slices.Contains([]string{admin.MaskDrop, admin.MaskHash, admin.MaskBlur}, m.How):
			return wrong("masks", "has %.40q for tensor %.100q: want drop, hash or blur", m.How, m.Tensor)
		case slices.ContainsFunc(s.Masks[:i], func(o admin.RecordingMask) bool { return o.Tensor == m.Tensor }):
			return wrong("masks", "names the tensor %.100q twice", m.Tensor)
		}
	}
	return nil
}

// Decode reads a document of Bucket. Errors: Invalid, and those of JSON.
func Decode(value []byte) (s admin.RecordingSettings, err error) {
	if err := json.Unmarshal(value, &s); err != nil {
		return s, err
	}
	return s, CheckSettings(&s)
}

// declared returns the tensors that a version has.
func declared(list []edgewise.Tensor, specs []edgewise.Spec) []edgewise.Tensor {
	return slices.DeleteFunc(slices.Clone(list), func(t edgewise.Tensor) bool {
		return !slices.ContainsFunc(specs, func(s edgewise.Spec) bool { return s.Name == t.Name })
	})
}

// hidden tells whether a version has every tensor that is masked. One that has another name for it would be recorded
// as it is.
func hidden(masks []admin.RecordingMask, m *edgewise.Model) (missing string, ok bool) {
	for _, mask := range masks {
		named := func(s edgewise.Spec) bool { return s.Name == mask.Tensor }
		if !slices.ContainsFunc(m.Inputs(), named) && !slices.ContainsFunc(m.Outputs(), named) {
			return mask.Tensor, false
		}
	}
	return "", true
}
