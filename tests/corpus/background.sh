#!/usr/bin/env bash
# The child holds standard output open; the run ends all the same, and the child with it.
sleep 300 &
echo started
