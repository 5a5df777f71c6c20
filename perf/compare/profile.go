package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// profileSeconds is how long those profiles look that look for a while; all at
// once.
const profileSeconds = "5"

// profiles are what is captured, by the name of the file, with the path on the
// admin endpoint.
var profiles = []struct{ name, path string }{
	{"cpu", "profile?seconds=" + profileSeconds},
	{"block", "block?seconds=" + profileSeconds},
	{"mutex", "mutex?seconds=" + profileSeconds},
	{"heap", "heap"},
}

// profile captures the server's profiles under load into the directory, and
// prints the top of each.
func profile(o *options, loops int, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s := ticketing(loops)
	p, err := s.start(o)
	if err != nil {
		return err
	}
	defer p.stop()
	l, err := newLoad(p, s, workload{connections: 16, depth: 16, lease: 250})
	if err != nil {
		return err
	}
	defer l.close()
	o.say("%s, %v, %s s", s.title, shapes[1], profileSeconds)
	captured := make(chan error, len(profiles))
	for _, kind := range profiles {
		go func() { captured <- capture(p, kind.path, filepath.Join(dir, kind.name+".pprof")) }()
	}
	for missing := len(profiles); missing > 0; {
		if _, err := l.run(0, 50*time.Millisecond); err != nil {
			return err
		}
		select {
		case err := <-captured:
			if err != nil {
				return err
			}
			missing--
		default:
		}
	}
	for _, kind := range profiles {
		file := filepath.Join(dir, kind.name+".pprof")
		o.say("\n== %s: %s", kind.name, file)
		top, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=15", o.binary, file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("go tool pprof: %w\n%s", err, top)
		}
		o.say("%s", top)
	}
	o.say("go tool pprof -http=: %s %s", o.binary, filepath.Join(dir, "cpu.pprof"))
	return nil
}

// capture saves one profile.
func capture(p *process, path, file string) error {
	answer, err := http.Get("http://" + p.admin + "/debug/pprof/" + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, answer.Body)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
