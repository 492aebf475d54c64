// Package fetch is the protocol between the appliance and edgewise-fetch, the program that knows the clients of object
// stores and registries. It holds the messages, and both halves of a connection.
//
// The program reads requests from its standard input and writes replies to its standard output, each a JSON object in a
// line of its own. It answers one request after the other, each with any number of replies, the last of which, and no
// other, has Done set. It ends when its input ends, also in the middle of a request, and leaves what it has fetched
// until then to be continued. Its standard error is for the log. Secrets stand in requests and in the environment, never
// in a command line or a reply.
//
//	> {"version":1,"command":"list","url":"s3://bucket/models"}
//	< {"entries":[{"name":"cat/1/model.onnx","size":412,"tag":"\"5d41...\"","md5":"5d41...","changed":1790000000000000000}]}
//	< {"done":true}
//	> {"version":1,"command":"get","url":"s3://bucket/models","folder":"/data/remote/5f","files":[{"name":"cat/1/model.onnx",...}]}
//	< {"progress":{"bytes":412}}
//	< {"file":{"name":"cat/1/model.onnx","key":"9c...","sha256":"2c...","size":412,"received":412}}
//	< {"done":true}
//
// # Commands
//
// list replies with every file below the URL, in pages (Reply.Entries). resolve replies with the digest that a reference
// of a registry has now (Reply.Digest). get fetches Request.Files into Request.Folder and replies with a Fetched for each
// file that is there, and with a Failure that names it for each that is not. put sends Request.Files, which lie in
// Request.Folder under their names, and replies with a Fetched for each and with the Digest of the whole. sign signs
// what a reference of a registry names with Request.Key, and replies with its Digest.
//
// # The folder of get
//
//	files/SHA256   files, by the digest of their bytes
//	keys/KEY       the digest of the file that has a key (Entry.Key), in hexadecimal digits
//	parts/KEY      the beginning of a file that is being fetched
//
// A file appears in files when it is whole and what its entry says of it: then its key is there as well. It is on its
// way to the disk: who needs it after a cut of the power syncs it, as package store does and the state that is kept of a
// model, and who reads it checks its digest. A part is continued where it ends, as long as the
// store still has the file under the same tag. One program at a time writes to a folder; anybody may read it meanwhile.
package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// Version is that of the protocol. A program of another version is refused.
const Version = 1

// Bounds of messages.
const (
	MaxLine    = 4 << 20 // bytes of a request or a reply
	MaxPage    = 1000    // entries of a reply, and files of a request
	MaxName    = 1024    // bytes of the name of a file
	MaxEntries = 100_000 // files below one URL
)

// Commands.
const (
	List    = "list"
	Get     = "get"
	Put     = "put"
	Resolve = "resolve"
	Sign    = "sign"
)

// Request is what the program is to do.
type Request struct {
	Version     int         `json:"version"`
	Command     string      `json:"command"`
	URL         string      `json:"url"`
	Credentials Credentials `json:"credentials,omitzero"` // empty: those of the environment
	Folder      string      `json:"folder,omitempty"`     // of get and put; an absolute path
	Files       []Entry     `json:"files,omitempty"`      // of get and put, at most MaxPage
	Parallel    int         `json:"parallel,omitempty"`   // files that are fetched at the same time; 0: 4
	Reserve     int64       `json:"reserve,omitempty"`    // bytes of the disk that get leaves free
	// Config is the configuration of the version that put publishes, in JSON, and Annotations say where it comes from.
	Config      json.RawMessage   `json:"config,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Form        string            `json:"form,omitempty"` // of put to a registry: FormModel, which "" is, or FormFleet
	Key         string            `json:"key,omitempty"`  // of sign: a private key of minisign, without a password
}

// Trust says which artifacts of registries are believed.
type Trust struct {
	Keys    []string `json:"keys,omitempty"`    // public keys of minisign, as its files .pub have them
	Require bool     `json:"require,omitempty"` // artifacts without a signature of one of them are refused
}

// Credentials are those for one URL. What is empty is looked for in the environment.
type Credentials struct {
	KeyID        string `json:"key_id,omitempty"` // S3
	SecretKey    string `json:"secret_key,omitempty"`
	SessionToken string `json:"session_token,omitempty"`
	Region       string `json:"region,omitempty"`
	Profile      string `json:"profile,omitempty"`

	ServiceAccount string `json:"service_account,omitempty"` // Google: the content of its file of credentials

	Account    string `json:"account,omitempty"` // Azure
	AccountKey string `json:"account_key,omitempty"`

	User     string `json:"user,omitempty"` // registries
	Password string `json:"password,omitempty"`
	Token    string `json:"token,omitempty"`

	Trust Trust `json:"trust,omitzero"`
}

// Entry is one file of a remote tree. A name that ends with "/" is a folder's own.
type Entry struct {
	Name    string `json:"name"` // below the URL, with slashes
	Size    int64  `json:"size"`
	Tag     string `json:"tag,omitempty"`     // the store's mark of this state of the file, such as an ETag or a generation
	MD5     string `json:"md5,omitempty"`     // in hexadecimal digits, where the store knows it
	CRC32C  string `json:"crc32c,omitempty"`  // in hexadecimal digits, where the store's list has it
	SHA256  string `json:"sha256,omitempty"`  // in hexadecimal digits, where the store knows it
	Changed int64  `json:"changed,omitempty"` // nanoseconds since 1970
}

// Key names the content of the file as far as the store tells files apart: files with the same key are one. It is that
// of the content where the store says something about that, otherwise that of the name and its tag.
func (e Entry) Key() string {
	text := "tag\x00" + e.Name + "\x00" + e.Tag + "\x00" + strconv.FormatInt(e.Changed, 10)
	switch {
	case e.SHA256 != "":
		text = "sha256\x00" + e.SHA256
	case e.MD5 != "":
		text = "md5\x00" + e.MD5
	}
	sum := sha256.Sum256([]byte(text + "\x00" + strconv.FormatInt(e.Size, 10)))
	return hex.EncodeToString(sum[:16])
}

// Reply is one of the answers to a request. One of its fields is set, and Failure may stand beside Done.
type Reply struct {
	Version  int       `json:"version,omitempty"`  // of the program that refuses a request of another version
	Entries  []Entry   `json:"entries,omitempty"`  // of list, at most MaxPage
	Progress *Progress `json:"progress,omitempty"` // of get and put, at most every 100 ms
	File     *Fetched  `json:"file,omitempty"`
	Artifact *Artifact `json:"artifact,omitempty"` // of list, before the entries that are of it
	Digest   string    `json:"digest,omitempty"`   // as sha256:HEX
	Failure  *Failure  `json:"failure,omitempty"`
	Done     bool      `json:"done,omitempty"`
}

// Progress says how much of a request was received or sent until now, and how much earlier requests have left of files that were not
// whole.
type Progress struct {
	Bytes int64 `json:"bytes"`
	Had   int64 `json:"had,omitempty"`
}

// Artifact is what a registry has of one version.
type Artifact struct {
	Digest      string            `json:"digest"` // of its manifest, as sha256:HEX
	Form        string            `json:"form"`
	SignedBy    string            `json:"signed_by,omitempty"` // the trusted key; empty: none, or nobody has looked
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Forms of artifacts.
const (
	FormModel    = "model"    // one file a layer; docs/registries.md
	FormFleet    = "fleet"    // a document of a fleet with its signature, or a report of a box
	FormModelcar = "modelcar" // an image with files below /models, as KServe reads it: the entries are its layers
)

// Fetched is a file that is whole.
type Fetched struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	SHA256   string `json:"sha256"`
	Size     int64  `json:"size"`
	Received int64  `json:"received"` // bytes of it that the network brought for this request
}

// Kinds of failures.
const (
	Invalid     = "invalid"     // the request or the URL is wrong
	NotFound    = "not_found"   // there is no such bucket, file or reference
	Denied      = "denied"      // the credentials are missing, wrong or expired, or do not allow it
	Unavailable = "unavailable" // the store cannot be reached or does not answer as it should now
	Changed     = "changed"     // the file is not what list has said of it any more
	Corrupt     = "corrupt"     // the bytes are not those that the store, or a digest, says
	Exhausted   = "exhausted"   // the disk is full, or would go under its reserve
	TooLarge    = "too_large"   // over a bound of the protocol
	Unsupported = "unsupported" // the program does not know the command or the scheme
	Internal    = "internal"    // a fault of the program
)

// Failure is why a request, or one of its files, failed.
type Failure struct {
	Kind    string `json:"kind"`
	Object  string `json:"object,omitempty"` // the name of the file; empty: the request as a whole
	Message string `json:"message"`
}

// Error returns the message with the file that it is about.
func (f *Failure) Error() string {
	if f.Object == "" {
		return f.Message
	}
	return f.Object + ": " + f.Message
}

// Failf makes a failure of a request.
func Failf(kind, format string, args ...any) *Failure {
	return &Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
