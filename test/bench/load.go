package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// caller sends one prepared request over and over on a connection of its own. It does as little as it can, because it
// takes its time from the same cores as the server: its socket blocks, so that the kernel wakes its thread directly.
type caller struct {
	conn    *os.File
	reader  *bufio.Reader
	request []byte
}

func newCaller(address, path string, headers string, body []byte) (*caller, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	blocking, err := conn.(*net.TCPConn).File() // a duplicate of the socket
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(int(blocking.Fd()), false); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n", path, address, headers, len(body))
	return &caller{conn: blocking, reader: bufio.NewReaderSize(blocking, 64<<10), request: append([]byte(head), body...)}, nil
}

// call sends the request and reads the whole answer.
func (c *caller) call() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	status, err := c.reader.ReadString('\n')
	if err != nil {
		return err
	}
	length := 0
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.EqualFold(name, "content-length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		}
	}
	if !strings.Contains(status, " 200 ") {
		body, _ := io.ReadAll(io.LimitReader(c.reader, int64(length)))
		return fmt.Errorf("%s: %s", strings.TrimSpace(status), body)
	}
	_, err = c.reader.Discard(length)
	return err
}
