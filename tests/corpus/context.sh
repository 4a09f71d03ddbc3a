#!/usr/bin/env bash
[[ $CONTEXT == "$KEPTN_CONTEXT" ]] && printf %s "$CONTEXT"
