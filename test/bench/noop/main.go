// Command noop is the web framework of the appliance with a handler that does nothing: the limit of what a server that
// is built on it can answer. It takes every body and answers with as many bytes as it is told.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/gofiber/fiber/v2"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "noop:", err)
		os.Exit(1)
	}
}

func serve() error {
	size, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	answer := make([]byte, size)
	app := fiber.New(fiber.Config{DisableStartupMessage: true, BodyLimit: 64 << 20})
	app.Post("/", func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEOctetStream)
		return c.Send(answer)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", ln.Addr())
	return app.Listener(ln)
}
