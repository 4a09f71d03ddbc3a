#!/usr/bin/env bash
echo "it's \"quoted\" and \$5 \`back\`"
