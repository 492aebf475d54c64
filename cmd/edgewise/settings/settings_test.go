package settings

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// parsed is the configuration that arguments of serve lead to.
func parsed(environment []string, words ...string) (config.Config, *Triton, error) {
	var s Settings
	var triton Triton
	var c config.Config
	cmd := &cobra.Command{Use: "serve", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) (err error) {
		c, err = s.LoadWith(environment, &triton)
		return err
	}, Args: cli.Arguments()}
	s.Register(cmd)
	triton.Register(cmd)
	arguments, err := Getopt(cmd, words)
	if err != nil {
		return c, &triton, err
	}
	cmd.SetArgs(arguments)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	err = cmd.Execute()
	return c, &triton, err
}

func TestTritonFlags(t *testing.T) {
	value := func(c config.Config, key string) string {
		var b strings.Builder
		if err := config.Write(&b, c); err != nil {
			t.Fatal(err)
		}
		section, name, _ := strings.Cut(key, ".")
		_, rest, _ := strings.Cut("\n"+b.String(), "\n"+section+":\n")
		for line := range strings.Lines(rest) {
			if v, ok := strings.CutPrefix(line, "  "+name+": "); ok {
				return strings.ReplaceAll(strings.TrimSpace(v), `"`, "")
			}
		}
		return "?"
	}
	for _, test := range []struct{ arguments, key, want string }{
		{"--id=box", "server.id", "box"},
		{"--model-repository=/a --model-store /b", "repository.folders", "[/a, /b]"},
		{"--model-repository=/a,b --model-repository=/c", "repository.folders", `[/a,b, /c]`},
		{"--model-repository=/a --model-repository=/b --model-repo=/a", "repository.folders", "[/a, /b]"},
		{"--load-model=a,b", "repository.load_models", "[a,b]"},
		{"--model-control-mode=EXPLICIT", "repository.control_mode", "explicit"},
		{"--log-warn=false", "log.warning", "false"},
		{"--log-warn false", "log.warning", "false"},
		{"--log-warn", "log.warning", "true"},
		{"--log-verb 3", "log.verbose", "3"},
		{"--http-po=9000", "http.address", "127.0.0.1:9000"},
		{"--id --log-warn", "server.id", "--log-warn"},
		{"--trace-level=on", "trace.levels", "[TIMESTAMPS]"},
		{"--trace-config level=OFF --trace-config level=TIMESTAMPS", "trace.levels", "[OFF]"},
		{"--http-restricted-api=health:k=a,b", "http.restricted_api", "[health:k=a,b]"},
		{"--model-control-mode explicit", "repository.control_mode", "explicit"},
		{"--load-model=a --load-model b", "repository.load_models", "[a, b]"},
		{"--repository-poll-secs 3", "repository.poll_interval", "3s"},
		{"--model-config-name x", "repository.config_name", "x"},
		{"--exit-on-error=false", "repository.exit_on_error", "false"},
		{"--exit-on-error false", "repository.exit_on_error", "false"},
		{"--strict-readiness false", "engine.strict_readiness", "false"},
		{"--strict-readiness=off", "engine.strict_readiness", "false"},
		{"--strict-readiness", "engine.strict_readiness", "true"},
		{"--exit-timeout-secs=7", "shutdown.timeout", "7s"},
		{"--disable-auto-complete-config", "engine.auto_complete", "false"},
		{"--strict-model-config=true", "engine.auto_complete", "false"},
		{"--model-load-thread-count=8", "engine.load_concurrency", "8"},
		{"--model-load-retry-count=2", "repository.load_retries", "2"},
		{"--backend-config=onnxruntime,default-max-batch-size=9", "engine.default_max_batch_size", "9"},
		{"--backend-config=default-max-batch-size=8", "engine.default_max_batch_size", "8"},
		{"--cache-config=local,size=1048576", "engine.response_cache_bytes", "1MiB"},
		{"--response-cache-byte-size=1048576", "engine.response_cache_bytes", "1MiB"},
		{"--http-port=9000", "http.address", "127.0.0.1:9000"},
		{"--http-address=0.0.0.0", "http.address", "0.0.0.0:8000"},
		{"--http-address 0.0.0.0 --http-port 9000", "http.address", "0.0.0.0:9000"},
		{"--allow-http=false", "http.address", ""},
		{"--allow-http=true --http-port 1", "http.address", "127.0.0.1:1"},
		{"--reuse-http-port true", "http.reuse_port", "true"},
		{"--http-header-forward-pattern=^x-.*", "http.forward_headers", "^x-.*"},
		{"--http-max-input-size=134217728", "http.max_json_bytes", "128MiB"},
		{"--http-max-input-size=536870912", "http.max_body_bytes", "512MiB"},
		{"--http-restricted-api=health,metadata:k=v", "http.restricted_api", "[health;metadata:k=v]"},
		{"--allow-grpc false", "grpc.address", ""},
		{"--grpc-port 9001", "grpc.address", "127.0.0.1:9001"},
		{"--grpc-address=::1", "grpc.address", "[::1]:8001"},
		{"--reuse-grpc-port=1", "grpc.reuse_port", "true"},
		{"--grpc-header-forward-pattern=a", "grpc.forward_headers", "a"},
		{"--grpc-use-ssl=true --grpc-server-cert=/c --grpc-server-key=/k --grpc-root-cert=/r", "grpc.tls_certificate", "/c"},
		{"--grpc-use-ssl=true --grpc-server-cert=/c --grpc-server-key=/k --grpc-root-cert=/r", "grpc.tls_client_authorities", ""},
		{"--grpc-use-ssl-mutual=true --grpc-server-cert=/c --grpc-server-key=/k --grpc-root-cert=/r", "grpc.tls_client_authorities", "/r"},
		{"--grpc-server-cert=/c --grpc-server-key=/k", "grpc.tls_certificate", ""},
		{"--grpc-infer-response-compression-level=high", "grpc.response_compression", "high"},
		{"--grpc-keepalive-time=10000", "grpc.keepalive_time", "10s"},
		{"--grpc-keepalive-timeout=20000", "grpc.keepalive_timeout", "20s"},
		{"--grpc-keepalive-permit-without-calls true", "grpc.keepalive_permit_without_calls", "true"},
		{"--grpc-http2-min-recv-ping-interval-without-data=1000", "grpc.keepalive_min_interval", "1s"},
		{"--grpc-max-connection-age=60000", "grpc.max_connection_age", "1m"},
		{"--grpc-max-connection-age-grace=1000", "grpc.max_connection_age_grace", "1s"},
		{"--grpc-restricted-protocol=inference:k=v --grpc-restricted-protocol=health:a=b", "grpc.restricted_api", "[inference:k=v, health:a=b]"},
		{"--log-verbose=2", "log.verbose", "2"},
		{"--log-verbose=true", "log.verbose", "1"},
		{"--log-verbose=false", "log.verbose", "0"},
		{"--log-verbose=1", "log.verbose", "1"},
		{"--log-verbose=0", "log.verbose", "0"},
		{"--log-verbose=1000000", "log.verbose", "1000000"}, // Triton has no upper bound either
		{"--log-info=false", "log.info", "false"},
		{"--log-warning=0", "log.warning", "false"},
		{"--log-error=off", "log.error", "false"},
		{"--log-format=default", "log.format", "triton"},
		{"--log-format=ISO8601", "log.format", "triton-iso8601"},
		{"--log-file=/tmp/x", "log.file", "/tmp/x"},
		{"--allow-metrics=false", "metrics.enabled", "false"},
		{"--allow-metrics=false", "metrics.address", ""},
		{"--allow-cpu-metrics=false", "metrics.cpu", "false"},
		{"--metrics-port=9002", "metrics.address", "127.0.0.1:9002"},
		{"--http-address=0.0.0.0", "metrics.address", "0.0.0.0:8002"},
		{"--http-address=0.0.0.0 --metrics-address=127.0.0.2", "metrics.address", "127.0.0.2:8002"},
		{"--metrics-config=summary_latencies=true", "metrics.summary_latencies", "true"},
		{"--metrics-config histogram_latencies=true", "metrics.histogram_latencies", "true"},
		{"--metrics-config=counter_latencies=false", "metrics.counter_latencies", "false"},
		{`--metrics-config=summary_quantiles="0.5:0.05,0.9:0.01"`, "metrics.summary_quantiles", "0.5:0.05,0.9:0.01"},
		{"--metrics-config=summary_quantiles=0.1:0.0.1,0.7:0.01", "metrics.summary_quantiles", "0.1:0.0001,0.7:0.01"},
		{"--metrics-config=summary_quantiles=0.5x:0", "metrics.summary_quantiles", "0.5:0.0001"},
		{"--trace-config=level=TIMESTAMPS --trace-config=level=TENSORS", "trace.levels", "[TIMESTAMPS, TENSORS]"},
		{"--trace-config level=OFF", "trace.levels", "[OFF]"},
		{"--trace-level=MAX", "trace.levels", "[TIMESTAMPS]"},
		{"--trace-config=rate=5", "trace.rate", "5"},
		{"--trace-config=count=6", "trace.count", "6"},
		{"--trace-config=mode=opentelemetry", "trace.mode", "opentelemetry"},
		{"--trace-config=triton,file=/tmp/t", "trace.file", "/tmp/t"},
		{"--trace-file=/tmp/t", "trace.file", "/tmp/t"},
		{"--trace-config=triton,log-frequency=7", "trace.log_frequency", "7"},
		{"--trace-config=opentelemetry,url=http://a:1/v1/traces", "trace.url", "http://a:1/v1/traces"},
		{"--trace-config=opentelemetry,resource=a=b", "trace.resource", "[a=b]"},
		{"--trace-config=opentelemetry,bsp_max_queue_size=9", "trace.queue_size", "9"},
		{"--trace-config=opentelemetry,bsp_schedule_delay=250", "trace.export_delay", "250ms"},
		{"--trace-config=opentelemetry,bsp_max_export_batch_size=9", "trace.export_batch", "9"},
		{"--model-repository=/a", "http.allowed_hosts", "[*]"},
		{"--model-repository=/a --set http.allowed_hosts=a.b", "http.allowed_hosts", "[a.b]"},
		{"--http-port=9000", "http.allowed_hosts", "[]"},
		{"--allow-client-shm=true", "shared_memory.enabled", "true"},
		{"--id=a --set server.id=b", "server.id", "b"},
	} {
		c, _, err := parsed(nil, strings.Fields(test.arguments)...)
		if err != nil {
			t.Errorf("%s: %v", test.arguments, err)
			continue
		}
		if got := value(c, test.key); got != test.want {
			t.Errorf("%s: %s is %s, want %s", test.arguments, test.key, got, test.want)
		}
	}
}

func TestOtherCommandsHaveNoneOfTheseFlags(t *testing.T) {
	c, err := (&Settings{values: []string{"server.id=x"}}).Load(nil)
	if err != nil || c.Server.ID != "x" {
		t.Errorf("got %q, %v", c.Server.ID, err)
	}
}

func TestTritonFlagsGoBeforeTheEnvironment(t *testing.T) {
	c, _, err := parsed([]string{"EDGEWISE_HTTP_ADDRESS=:7000", "EDGEWISE_GRPC_ADDRESS=", "EDGEWISE_SHUTDOWN_TIMEOUT=9s"},
		"--http-port=9000", "--grpc-port=9001", "--exit-timeout-secs=5")
	if err != nil || c.HTTP.Address != ":9000" || c.GRPC.Address != "127.0.0.1:9001" || c.Shutdown.Timeout != 5*time.Second {
		t.Errorf("got %q, %q, %v, %v", c.HTTP.Address, c.GRPC.Address, c.Shutdown.Timeout, err)
	}
}

// TestPointlessFlagsAreNoted gives every flag that has no effect here.
func TestPointlessFlagsAreNoted(t *testing.T) {
	flags := strings.Fields(`--http-thread-count=4 --grpc-infer-thread-count=4 --grpc-infer-allocation-pool-size=8
	  --grpc-max-response-pool-size=8
		--grpc-http2-max-pings-without-data=2 --grpc-http2-max-ping-strikes=2 --backend-directory=/x --repoagent-directory=/x --cache-directory=/x
		--host-policy=0,numa-node=0 --model-load-gpu-limit=0:0.5 --min-supported-compute-capability=6.0 --pinned-memory-pool-byte-size=0
		--cuda-memory-pool-byte-size=0:0 --cuda-virtual-address-size=0:1 --buffer-manager-thread-count=0
		  --enable-peer-access=true --allow-gpu-metrics=true
		--metrics-interval-ms=2000 --sagemaker-port=1 --vertex-ai-port=1 --backend-config=tensorflow,version=2 --metrics-config=x=y`)
	_, triton, err := parsed(nil, flags...)
	if err != nil {
		t.Fatal(err)
	}
	if len(triton.Notes) != len(flags) {
		t.Errorf("%d flags, %d notes: %v", len(flags), len(triton.Notes), triton.Notes)
	}
	for _, n := range triton.Notes {
		if n.Reason == "" {
			t.Errorf("no reason for %s", n.Flag)
		}
		if strings.Contains(n.Reason, "no GPU") {
			t.Errorf("%s: the box uses GPUs, and the reason is %q", n.Flag, n.Reason)
		}
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	for arguments, want := range map[string]string{
		"--no-such-flag=1":                       "unknown flag: --no-such-flag",
		"--strict-readiness=maybe":               "want true or false",
		"--http-port=70000":                      "want a port from 0 to 65535",
		"--grpc-port=x":                          "want a port",
		"--exit-timeout-secs=-1":                 "want a number of units of 1s",
		"--model-control-mode=auto":              "repository.control_mode: want one of none, poll, explicit",
		"--model-namespacing=true":               "give them names of their own",
		"--allow-sagemaker=true":                 "SageMaker's routes are not served",
		"--allow-vertex-ai=true":                 "Vertex AI's routes are not served",
		"--cache-config=redis,host=x":            `only the cache "local"`,
		"--cache-config=local,entries=1":         "want local,size=bytes",
		"--metrics-config=summary_quantiles=x:y": "want up to 16 pairs of numbers",
		"--rate-limit=always":                    "want one of off, execution_count",
		"--backend-config=onnxruntime":           "want backend,name=value",
		"--log-verbose=-1":                       "log.verbose",
		"--log-verbose=much":                     "log.verbose",
		"--log=true": "option '--log' is ambiguous; possibilities: '--log-error' '--log-file' " +
			"'--log-format' '--log-info' '--log-verbose' '--log-warning'",
		"--http-restricted-api=health:a=b --http-restricted-api=metadata,health:c=d": "restricted api 'health' " +
			"can not be specified in multiple config groups",
		"--grpc-restricted-protocol=health:a=b --grpc-restricted-protocol=metadata,health:c=d": "restricted protocol " +
			"'health' can not be specified in multiple config groups",
		"--grpc-restricted-protocol=model-reposit:k=v": "unknown restricted protocol 'model-reposit'",
		"--model-load-gpu-limit=-1:0.6":                "expects device ID >= 0, got -1",
		"--model-load-gpu-limit=0:-0.4": "expects limit fraction " +
			"to be in range [0.0, 1.0], got -0.4",
		"--model-load-gpu-limit=0":        "want device:fraction",
		"--grpc-infer-thread-count=1":     "must be in the range 2 to 128",
		"--grpc-infer-thread-count=129":   "must be in the range 2 to 128",
		"--grpc-max-response-pool-size=0": "must be greater than 0",
		"--http-thread-count=x":           "want a whole number",
		"--model-config-name=":            "empty argument for --model-config-name",
		"--cache-config=local,size=1048576 --response-cache-byte-size=1048576": "the response cache is given twice",
		"--http-port=8000 --grpc-port=8000":                                    "at the same address and port",
		"--log-format=xml":                                                     "want default or ISO8601",
		"--trace-config=x":                                                     "want name=value",
		"--trace-config=triton,x=1":                                            "there is no setting",
		"--trace-level=LOW":                                                    "want OFF, TIMESTAMPS or TENSORS",
		"--http-max-input-size=0":                                              "--http-max-input-size must be greater than 0",
		"--http-max-input-size=-1024":                                          "--http-max-input-size must be greater than 0",
		"--http-restricted-api=health":                                         "want API,API:key=value",
		"--http-restricted-api=x:k=v":                                          "unknown restricted api 'x'",
		"--metrics-config=x":                                                   "want name=value",
		"--grpc-infer-response-compression-level=most":                         "grpc.response_compression: want one of",
	} {
		if _, _, err := parsed(nil, strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", arguments, err, want)
		}
	}
}

func TestAFolderForTheStoreIsMadeAndRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, triton, err := parsed(nil, "--model-repository=/x")
	if err != nil {
		t.Fatal(err)
	}
	remove, err := triton.Temporary(c)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(c.DataDir); err != nil || !info.IsDir() || c.Store.ReserveBytes != 0 {
		t.Errorf("%v, reserve %v", err, c.Store.ReserveBytes)
	}
	remove()
	if _, err := os.Stat(c.DataDir); !os.IsNotExist(err) {
		t.Error("it is still there")
	}
	own := t.TempDir()
	c, triton, err = parsed([]string{"EDGEWISE_DATA_DIR=" + own}, "--model-repository=/x")
	if err != nil || c.DataDir != own {
		t.Fatalf("%s, %v", c.DataDir, err)
	}
	if remove, err = triton.Temporary(c); err != nil {
		t.Fatal(err)
	}
	remove()
	if _, err := os.Stat(own); err != nil {
		t.Error("the user's own folder was removed")
	}
}

// TestTheFolderOfABoxThatWasKilledIsTakenOver starts a box where one with the same process number was killed, as in a
// container that is started again.
func TestTheFolderOfABoxThatWasKilledIsTakenOver(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, triton, err := parsed(nil, "--model-repository=/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(c.DataDir+"/files", 0o700); err != nil {
		t.Fatal(err)
	}
	remove, err := triton.Temporary(c)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(c.DataDir); err != nil || len(left) > 0 {
		t.Errorf("%v are still there, %v", left, err)
	}
	if _, err := triton.Temporary(c); err == nil || !strings.Contains(err.Error(), "is another box's, which runs") {
		t.Errorf("a folder that is in use: %v", err)
	}
	remove()
	for name, make := range map[string]func() error{
		"open to others": func() error { return errors.Join(os.Mkdir(c.DataDir, 0o700), os.Chmod(c.DataDir, 0o777)) },
		"a link":         func() error { return os.Symlink(t.TempDir(), c.DataDir) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if _, err := triton.Temporary(c); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		if err := os.Remove(c.DataDir); err != nil {
			t.Fatal(err)
		}
	}
}
