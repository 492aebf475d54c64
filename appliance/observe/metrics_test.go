package observe

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func source() Source {
	v := &edgewise.Version{
		ID:    edgewise.ModelID{Name: "cat", Version: 2},
		Model: &edgewise.Model{MetricTags: map[string]string{"site": "roof"}},
	}
	st := edgewise.Statistics{InferenceCount: 7, ExecutionCount: 3, Pending: 1, Closed: map[string]uint64{"preferred": 6, "off": 0}}
	st.Failures[edgewise.Busy], st.Failures[edgewise.Internal], st.Failures[edgewise.Invalid] = 4, 1, 2
	st.Process = &edgewise.Process{PID: 5, Resident: 4096, Crashes: 2, Copied: 9}
	st.Success = edgewise.Duration{Count: 3, Total: 1500 * time.Microsecond}
	st.Steps = []edgewise.StepStatistics{{
		Model:   edgewise.ModelID{Name: "nose", Version: 4},
		Success: edgewise.Duration{Count: 5, Total: 1500 * time.Millisecond}, Fail: edgewise.Duration{Count: 6},
		Wait: edgewise.Duration{Count: 1, Total: 250 * time.Millisecond}, Rows: 7, Skipped: 8, Stopped: 9,
	}}
	return Source{
		Samples: func() []Sample { return []Sample{{v, st}} },
		Statuses: func() []edgewise.Status {
			return []edgewise.Status{{State: edgewise.StateReady}, {ID: edgewise.ModelID{Name: "dog", Version: 3}, Fallen: true}}
		},
		Durations: true, Machine: true, Latencies: NewLatencies(LatencyConfig{}),
		Disk:  func() (int64, int64, error) { return 10, 20, nil },
		Ready: func() bool { return true },
		Devices: func() []edgewise.DeviceInfo {
			load, watts := 0.5, 61.5
			return []edgewise.DeviceInfo{{Name: "cpu", Used: true}, {
				Device: edgewise.Device{Kind: edgewise.GPU}, Name: "gpu:0", UUID: "GPU-1", Budget: 77,
				Telemetry: &edgewise.Telemetry{
					Utilization: &load, Power: &watts, Clocks: map[string]float64{"sm": 1e9}, Slowed: []string{"sw_thermal_slowdown"},
					Mode: "MAXN",
				},
			}}
		},
		Cache: func() CacheUsage { return CacheUsage{Bytes: 30, Limit: 40, Entries: 5, Evicted: 6} },
		GRPC: func() *GRPCUsage {
			return &GRPCUsage{Connections: 7, InflightBytes: 8, Panics: 9, Calls: []GRPCCalls{{"ModelInfer", "OK", 11}}}
		},
	}
}

func TestFailuresHaveTritonsReasons(t *testing.T) {
	var st edgewise.Statistics
	for kind := range st.Failures {
		st.Failures[kind] = 1
	}
	want := map[string]uint64{"REJECTED": 2, "CANCELED": 2, "BACKEND": 4, "OTHER": 8}
	if got := failures(st); !maps.Equal(got, want) {
		t.Errorf("of a model: %v, want %v", got, want)
	}
	st.Steps = make([]edgewise.StepStatistics, 1)
	want["BACKEND"], want["OTHER"] = 0, 12
	if got := failures(st); !maps.Equal(got, want) {
		t.Errorf("of an ensemble, whose steps count their backends: %v, want %v", got, want)
	}
}

func TestPage(t *testing.T) {
	page, contentType, err := New(source()).Page()
	if err != nil || !strings.HasPrefix(contentType, "text/plain") {
		t.Fatalf("content type %q, error %v", contentType, err)
	}
	for _, line := range []string{
		`nv_inference_request_success{_site="roof",model="cat",version="2"} 3`,
		`nv_inference_request_failure{_site="roof",model="cat",reason="REJECTED",version="2"} 4`,
		`nv_inference_request_failure{_site="roof",model="cat",reason="CANCELED",version="2"} 0`,
		`nv_inference_request_failure{_site="roof",model="cat",reason="BACKEND",version="2"} 0`,
		`nv_inference_request_failure{_site="roof",model="cat",reason="OTHER",version="2"} 3`,
		`edgewise_batches_closed_total{_site="roof",model="cat",reason="preferred",version="2"} 6`,
		`edgewise_batches_closed_total{_site="roof",model="cat",reason="off",version="2"} 0`,
		`nv_inference_count{_site="roof",model="cat",version="2"} 7`,
		`edgewise_ensemble_step_requests_total{_site="roof",model="cat",result="success",step="0",step_model="nose",` +
			`step_version="4",version="2"} 5`,
		`edgewise_ensemble_step_requests_total{_site="roof",model="cat",result="failure",step="0",step_model="nose",` +
			`step_version="4",version="2"} 6`,
		`edgewise_ensemble_step_requests_total{_site="roof",model="cat",result="skipped",step="0",step_model="nose",` +
			`step_version="4",version="2"} 8`,
		`edgewise_ensemble_step_requests_total{_site="roof",model="cat",result="stopped",step="0",step_model="nose",` +
			`step_version="4",version="2"} 9`,
		`edgewise_ensemble_step_seconds_total{_site="roof",model="cat",step="0",step_model="nose",step_version="4",version="2"} 1.5`,
		`edgewise_ensemble_step_wait_seconds_total{_site="roof",model="cat",step="0",step_model="nose",step_version="4",version="2"} 0.25`,
		`edgewise_ensemble_step_rows_total{_site="roof",model="cat",step="0",step_model="nose",step_version="4",version="2"} 7`,
		`nv_inference_exec_count{_site="roof",model="cat",version="2"} 3`,
		`nv_inference_pending_request_count{_site="roof",model="cat",version="2"} 1`,
		`nv_inference_request_duration_us{_site="roof",model="cat",version="2"} 1500`,
		`edgewise_device_used{device="cpu",gpu_uuid=""} 1`,
		`edgewise_device_used{device="gpu:0",gpu_uuid="GPU-1"} 0`,
		`edgewise_device_memory_budget_bytes{device="gpu:0",gpu_uuid="GPU-1"} 77`,
		`nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5`,
		`nv_gpu_power_usage{gpu_uuid="GPU-1"} 61.5`,
		`edgewise_device_clock_hertz{clock="sm",device="gpu:0",gpu_uuid="GPU-1"} 1000000000`,
		`edgewise_device_slowed{device="gpu:0",gpu_uuid="GPU-1",reason="sw_thermal_slowdown"} 1`,
		`edgewise_device_power_mode{device="gpu:0",gpu_uuid="GPU-1",mode="MAXN"} 1`,
		`edgewise_versions{state="READY"} 1`,
		`edgewise_versions{state="UNAVAILABLE"} 1`,
		`edgewise_versions{state="LOADING"} 0`,
		`edgewise_version_quarantined{model="dog",version="3"} 1`,
		`edgewise_process_up{_site="roof",model="cat",version="2"} 1`,
		`edgewise_process_resident_bytes{_site="roof",model="cat",version="2"} 4096`,
		`edgewise_process_crashes_total{_site="roof",model="cat",version="2"} 2`,
		`edgewise_process_copied_bytes_total{_site="roof",model="cat",version="2"} 9`,
		`edgewise_ready 1`,
		`edgewise_store_used_bytes 10`,
		`edgewise_store_free_bytes 20`,
		`edgewise_grpc_connections 7`,
		`edgewise_grpc_inflight_bytes 8`,
		`edgewise_grpc_panics_total 9`,
		`edgewise_grpc_calls_total{code="OK",method="ModelInfer"} 11`,
	} {
		if !strings.Contains(string(page), "\n"+line+"\n") {
			t.Errorf("the page lacks %s", line)
		}
	}
}

func TestCacheFiguresAreThoseOfTheModelsThatUseIt(t *testing.T) {
	s := source()
	sample := s.Samples()[0]
	page, _, err := New(s).Page()
	if err != nil || strings.Contains(string(page), "nv_cache_") {
		t.Errorf("error %v, page:\n%s", err, page)
	}
	sample.Version.Model.ResponseCache = &edgewise.Switch{Enable: true}
	sample.Statistics.CacheHit = edgewise.Duration{Count: 8, Total: 16 * time.Microsecond}
	sample.Statistics.CacheMiss = edgewise.Duration{Count: 9, Total: 90 * time.Microsecond}
	s.Samples = func() []Sample { return []Sample{sample} }
	page, _, err = New(s).Page()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`nv_cache_num_hits_per_model{_site="roof",model="cat",version="2"} 8`,
		`nv_cache_num_misses_per_model{_site="roof",model="cat",version="2"} 9`,
		`nv_cache_hit_duration_per_model{_site="roof",model="cat",version="2"} 16`,
		`nv_cache_miss_duration_per_model{_site="roof",model="cat",version="2"} 90`,
		`edgewise_response_cache_bytes 30`,
		`edgewise_response_cache_limit_bytes 40`,
		`edgewise_response_cache_entries 5`,
		`edgewise_response_cache_evictions_total 6`,
	} {
		if !strings.Contains(string(page), "\n"+line+"\n") {
			t.Errorf("the page lacks %s", line)
		}
	}
}

func TestAnUnreadableDiskHidesOnlyItsOwnFigures(t *testing.T) {
	s := source()
	s.Disk = func() (int64, int64, error) { return 0, 0, errors.New("gone") }
	page, _, err := New(s).Page()
	if err != nil || strings.Contains(string(page), "edgewise_store_") ||
		!strings.Contains(string(page), "edgewise_ready 1") {
		t.Errorf("error %v, page:\n%s", err, page)
	}
}

func TestWhatADeviceDoesNotTellIsNotOnThePage(t *testing.T) {
	page, _, err := New(source()).Page()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"nv_gpu_memory_used_bytes", "nv_energy_consumption",
		"edgewise_device_temperature_celsius", "edgewise_device_rail_watts",
	} {
		if strings.Contains(string(page), name) {
			t.Errorf("%s is on the page", name)
		}
	}
}
