package admin

import "time"

// The kinds of alert rules, and what Above means for them.
const (
	AlertErrorRate   = "error_rate"  // percent of a model's requests of a minute that failed; refused ones do not count
	AlertP99         = "p99"         // milliseconds, of a model's answered requests of a minute
	AlertDisk        = "disk"        // percent of the disk that is in use
	AlertTemperature = "temperature" // degrees Celsius, of a device
	AlertModelDown   = "model_down"  // Above is not used
)

// AlertRollout is the kind of an alert without a rule: a rollout has taken a version back.
const AlertRollout = "rollout"

// AlertRule says when an alert begins.
type AlertRule struct {
	Kind    string  `json:"kind"`
	Above   float64 `json:"above"`
	Minutes int     `json:"minutes"` // for how many minutes in sequence, 0 as 1
	Model   string  `json:"model"`   // empty: each one
}

// AlertTargets are where alerts are sent. Secrets are not shown: WebhookHost stands for the URL.
type AlertTargets struct {
	WebhookHost   string   `json:"webhook_host"` // empty: no webhook
	EmailServer   string   `json:"email_server"` // host:port; empty: no e-mail
	EmailFrom     string   `json:"email_from"`
	EmailTo       []string `json:"email_to"`
	EmailUser     string   `json:"email_user"` // empty: no login
	EmailPassword bool     `json:"email_password_set"`
}

// Alerts are the rules, the alerts that they have begun, and what was sent: GET /api/v1/alerts.
type Alerts struct {
	Rules         []AlertRule     `json:"rules"`
	RepeatSeconds int64           `json:"repeat_seconds"` // an alert that lasts is sent again after this time; 0: never
	Targets       AlertTargets    `json:"targets"`
	Active        []Alert         `json:"active"`
	Deliveries    []AlertDelivery `json:"deliveries"` // the latest first, at most 20
}

// Alert is an alert that has begun or ended.
type Alert struct {
	Kind    string    `json:"kind"`
	Subject string    `json:"subject"` // a model, a device, or empty
	Value   float64   `json:"value"`
	Above   float64   `json:"above"`
	Since   time.Time `json:"since"`
	Ended   bool      `json:"ended"`
	Text    string    `json:"text"`
}

// AlertDelivery is a message that was sent, or could not be.
type AlertDelivery struct {
	Time     time.Time `json:"time"`
	Target   string    `json:"target"` // webhook or email
	Subject  string    `json:"subject"`
	Attempts int       `json:"attempts"`
	Error    string    `json:"error,omitempty"`
}

// AlertsChange is the body of PUT /api/v1/alerts. A secret that is nil stays; the password does not when the server or
// the user changes.
type AlertsChange struct {
	Rules         []AlertRule `json:"rules"`
	RepeatSeconds int64       `json:"repeat_seconds"`
	WebhookURL    *string     `json:"webhook_url"` // empty: no webhook
	EmailServer   string      `json:"email_server"`
	EmailFrom     string      `json:"email_from"`
	EmailTo       []string    `json:"email_to"`
	EmailUser     string      `json:"email_user"`
	EmailPassword *string     `json:"email_password"`
}

// AlertTest is the result of POST /api/v1/alerts/test for one target.
type AlertTest struct {
	Target string `json:"target"`
	Error  string `json:"error,omitempty"`
}

// AlertMessage is the body that a webhook receives.
type AlertMessage struct {
	Box    string    `json:"box"`
	Time   time.Time `json:"time"`
	Test   bool      `json:"test"`
	Text   string    `json:"text"` // one line for each alert, which chats show
	Alerts []Alert   `json:"alerts"`
}
