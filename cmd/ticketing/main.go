package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	p := &process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(p.main(context.Background(), os.Args[1:]))
}

// process is what a command sees of the world around it.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string // "NAME=value"
}

// main runs the command that args name, reports its error as one line on
// stderr, and returns the exit code.
func (p *process) main(ctx context.Context, args []string) int {
	err := p.run(ctx, args)
	var status statusError
	if err != nil && !errors.As(err, &status) {
		p.complain(err)
	}
	return exitCode(err)
}

// complain tells of an error, as one line on stderr.
func (p *process) complain(err error) {
	fmt.Fprintf(p.stderr, "ticketing: %s\n", oneLine(err.Error()))
}
