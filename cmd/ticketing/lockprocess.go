package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// processState is what proc_pid_stat(5) says of a process.
type processState struct {
	state                  byte // 'Z' and 'X': it has ended
	parent, group, session int
}

func readProcess(pid int) (processState, error) {
	var s processState
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, err
	}
	behind := text[bytes.LastIndexByte(text, ')')+1:] // the name before it may hold anything
	_, err = fmt.Sscanf(string(behind), " %c %d %d %d", &s.state, &s.parent, &s.group, &s.session)
	return s, err
}

// othersIn reports whether a process of the group lives, its leader aside. When
// that cannot be told, one may.
func othersIn(group int) bool {
	dir, err := os.Open("/proc")
	if err != nil {
		return true
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return true
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == group {
			continue
		}
		if s, err := readProcess(pid); err == nil && s.group == group && s.state != 'Z' && s.state != 'X' {
			return true
		}
	}
	return false
}
