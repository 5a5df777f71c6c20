package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// probe is a command for ticketing lock to run. It says "ready" when it is what
// the test wants:
//
//	signals N CODE     prints the first N signals it gets, then exits with CODE
//	finishes           says "finished" a while after SIGTERM, then exits
//	stubborn           ignores SIGTERM and stays until it is killed
//	stays              stays until something ends it
//	ignored            prints which signals it was told to ignore
//	continues          at SIGCONT says whether it has the foreground, then exits
//	reads              prints the lines of its stdin, each as "got LINE"
//	forks ARG...       has a process of its group be probe ARG..., and stays
func probe() {
	time.AfterFunc(patience, func() { os.Exit(99) }) // nothing is left of a test that failed
	if len(os.Args) < 2 {
		os.Exit(98)
	}
	switch os.Args[1] {
	case "signals":
		probeSignals(os.Args[2], os.Args[3])
	case "finishes":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		time.Sleep(500 * time.Millisecond) // longer than it takes to be killed
		fmt.Println("finished")
	case "continues":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGCONT)
		fmt.Println("ready")
		<-signals
		fmt.Println("foreground", openTerminal().foreground() == unix.Getpgrp())
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "stays":
		fmt.Println("ready")
		select {}
	case "ignored":
		for _, s := range slices.Concat(ending, besides) {
			if signal.Ignored(s) {
				fmt.Println(unix.SignalName(s))
			}
		}
	case "reads":
		probeReads()
	case "forks":
		child := exec.Command("/proc/self/exe", os.Args[2:]...)
		child.Args[0] = os.Args[0] // by which the test binary knows that it is the probe
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			fmt.Println(err)
		}
		select {}
	}
}

func probeSignals(number, code string) {
	n, _ := strconv.Atoi(number)
	exit, _ := strconv.Atoi(code)
	signals := make(chan os.Signal, 64)
	for _, s := range slices.Concat(ending, besides) {
		signal.Notify(signals, s)
	}
	fmt.Println("ready")
	for range n {
		fmt.Println(unix.SignalName((<-signals).(syscall.Signal)))
	}
	os.Exit(exit)
}

func probeReads() {
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			fmt.Println("got " + line)
		}
		if err != nil {
			if err != io.EOF {
				fmt.Println(err)
			}
			return
		}
	}
}
