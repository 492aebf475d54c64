package processes

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestProcessorTimeIsThatOfAProcessAndItsChildren compares it with what the system says once a child has ended.
func TestProcessorTimeIsThatOfAProcessAndItsChildren(t *testing.T) {
	own, err := ProcessorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// The shell works, says so and waits; what it has used then is in it and in its parent.
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; read x")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	child, err := ProcessorTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	both, err := ProcessorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	_ = cmd.Wait()
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if child == 0 || child > used || child < used-used/10-10*time.Millisecond {
		t.Errorf("the child has used %v, in the end %v", child, used)
	}
	if both < own+child {
		t.Errorf("the two have used %v, this one had %v and the child %v", both, own, child)
	}
	if _, err := ProcessorTime(1 << 30); err == nil {
		t.Error("a process that does not exist has used some")
	}
}

func TestAProcessBeginsAfterItsParent(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read x")
	in, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	own, err := Began(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	child, err := Began(cmd.Process.Pid)
	if err != nil || child < own || own == 0 {
		t.Errorf("the child began at %d, this process at %d: %v", child, own, err)
	}
	_ = in.Close()
	_ = cmd.Wait()
	if _, err := Began(1 << 30); err == nil {
		t.Error("a process that is not there has begun")
	}
}
