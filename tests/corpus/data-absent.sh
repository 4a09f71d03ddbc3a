#!/usr/bin/env bash
[[ -z ${DATA+x} && -z ${CONTEXT+x} && -z ${KEPTN_CONTEXT+x} && -z ${SECURE_DATA+x} ]] && echo absent
