package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// benchCost is what `ticketing bench` costs beside the server it loads.
type benchCost struct {
	Shape  shape   `json:"shape"`
	Server float64 `json:"server_cpu_s"`
	Bench  float64 `json:"bench_cpu_s"`
	Ratio  float64 `json:"ratio"`
}

// measureBench runs the bench tool as a process, start and end included.
func measureBench(o *options) (all []benchCost, err error) {
	took := 3 * time.Second
	if o.quick {
		took = 500 * time.Millisecond
	}
	for _, sh := range shapes {
		p, err := ticketing(1).start(o)
		if err != nil {
			return nil, err
		}
		before := p.cpu()
		bench := exec.Command(o.binary, "bench", "--addr", p.addr, "--duration", took.String(), "--warmup", "0s",
			"--connections", strconv.Itoa(sh.Connections), "--pipeline", strconv.Itoa(sh.Depth))
		bench.Stderr = os.Stderr
		if err := bench.Run(); err != nil {
			p.stop()
			return nil, fmt.Errorf("ticketing bench: %w", err)
		}
		c := benchCost{Shape: sh, Server: (p.cpu() - before).Seconds(),
			Bench: (bench.ProcessState.UserTime() + bench.ProcessState.SystemTime()).Seconds()}
		c.Ratio = c.Bench / c.Server
		all = append(all, c)
		o.say("bench at %v: %.2f s of CPU, the server %.2f s, ratio %.2f", sh, c.Bench, c.Server, c.Ratio)
		if err := p.stop(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
